"""Adoption in three lines: an agent on OpenAI's own client, stopped in its process, and seen by the server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.client.waiting import wait_until
from tests.support.fake_provider import FakeProvider, Reply
from tests.support.hosts import Deployment, embedded

pytest.importorskip("openai")
pytestmark = pytest.mark.integration

AGENT = """
import json, sys
from openai import OpenAI
from spanfuse import Blocked, Guard, instrument
from spanfuse.integrations.openai import wrap_openai

provider, otlp, api, session, count = sys.argv[1:]
instrument(otlp)
guard = Guard(api, local=True, spans=True)
client = wrap_openai(OpenAI(base_url=provider, api_key="sk-test"), guard)

assert guard.wait_ready(20)
made, refusal = 0, ""
with guard.session(session, agent="looper", team="shop"):
    for n in range(int(count)):
        try:
            client.chat.completions.create(
                model="gpt-4o-mini",
                messages=[{"role": "user", "content": "Is it done?" if session == "loop" else f"Question {n}, {n * n}"}],
            )
            made += 1
        except Blocked as blocked:
            refusal = str(blocked)
print(json.dumps({"made": made, "refusal": refusal}))
"""


def run(provider: FakeProvider, host: Deployment, session: str, count: int) -> Any:
    command = [sys.executable, "-c", AGENT, provider.openai_url, host.otlp, host.guard, session, str(count)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_a_looping_agent_is_stopped_at_the_call_and_the_server_knows(tmp_path: Path) -> None:
    """No call is made after the third; the server has counted all that were made, and knows that there were no others."""
    with (
        FakeProvider(default=Reply("Not yet.")) as provider,
        embedded(tmp_path, {"service": {"mode": "enforce"}}) as host,
    ):
        told = run(provider, host, "loop", 30)
        assert (told["made"], provider.calls) == (3, 3)
        assert "session:loop is blocked by repeat.prompt" in told["refusal"]
        assert run(provider, host, "work", 10) == {"made": 10, "refusal": ""}

        def status() -> Any:
            return httpx.get(f"{host.api}/v1/status").json()

        wait_until(lambda: status()["counts"]["guards"] == {"blocked": 27, "calls": 13, "reports": 2}, timeout_s=30)
        assert (status()["counts"]["calls"], status()["counts"]["nested"]) == (13, 0)
        session = httpx.get(f"{host.api}/v1/sessions/loop").json()
        assert (session["calls"], session["decision"]["rule"]) == (3, "repeat.prompt")
        (refused,) = status()["guards"]["refused"]
        assert (refused["key"], refused["rule"], refused["blocked"]) == ("session:loop", "repeat.prompt", 27)
