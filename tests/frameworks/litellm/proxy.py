"""A process of LiteLLM's proxy, whose models are those of the fake provider."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.fake_provider import FakeProvider

START_S = 90.0
CONFIG = """
model_list:
  - {{model_name: gpt, litellm_params: {{model: openai/gpt-4o-mini, api_base: "{openai}", api_key: k}}}}
  - {{model_name: claude, litellm_params: {{model: anthropic/claude-sonnet-5, api_base: "{anthropic}", api_key: k}}}}
  - {{model_name: embed, litellm_params: {{model: openai/text-embedding-3-small, api_base: "{openai}", api_key: k}}}}
litellm_settings: {{callbacks: {callbacks}, num_retries: 0}}
general_settings: {{master_key: sk-master}}
"""
HANDLER = """
import json, os
from spanfuse.integrations.litellm import GuardHandler
from spanfuse.testing import FakeGuard, block, nudge

class Ended:
    def ended(self, call):
        answer = call.answer
        told = {
            "session": call.who.session, "agent": call.who.agent, "user": call.who.user, "team": call.who.team,
            "model": call.asked.model, "operation": call.asked.operation, "failed": call.error is not None,
            "output_tokens": answer and answer.output_tokens, "reply": str(answer and answer.reply),
        }
        with open(os.environ["ENDED"], "a") as file:
            file.write(json.dumps(told) + "\\n")

guard = FakeGuard(block("session:stopped", message="the same search three times"), nudge("session:nudged", "Answer now."))
guard.start()
guard.listen(Ended())
handler = GuardHandler(guard)
"""


class Proxy:
    """The process.

    Args:
        port: where it listens.
        ended: a file with a line for each call that ended.
    """

    def __init__(self, port: int, ended: Path) -> None:
        self._ended = ended
        self.url = f"http://127.0.0.1:{port}"
        self._client = httpx.Client(base_url=self.url, timeout=60)

    def post(self, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
        """A request; `x_spanfuse_agent` is a header."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._client.post(path, json=body, headers={"authorization": "Bearer sk-master", **named})

    def ended(self, count: int = 1) -> list[dict[str, Any]]:
        """The last calls that ended, once there are so many that were not given before."""
        until = time.monotonic() + 20
        while time.monotonic() < until:
            lines = self._ended.read_text().splitlines() if self._ended.exists() else []
            if len(lines) >= count:
                self._ended.unlink()
                return [json.loads(line) for line in lines]
            time.sleep(0.02)
        raise AssertionError("no call ended")

    def ready(self) -> bool:
        """Whether it answers."""
        try:
            return self._client.get("/health/liveliness").status_code == 200
        except httpx.HTTPError:
            return False


@contextmanager
def running(provider: FakeProvider, folder: Path, callbacks: str) -> Iterator[Proxy]:
    """A proxy with its configuration in a folder, where the callback may be as well."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    urls = {"openai": provider.openai_url, "anthropic": provider.url}
    (folder / "config.yaml").write_text(CONFIG.format(callbacks=callbacks, **urls))
    (folder / "guarded.py").write_text(HANDLER)
    log = folder / "log.txt"
    command = [str(Path(sys.executable).with_name("litellm")), "--config", str(folder / "config.yaml")]
    environment = os.environ | {"ENDED": str(folder / "ended.jsonl"), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with log.open("w") as out:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    proxy = Proxy(port, folder / "ended.jsonl")
    try:
        until = time.monotonic() + START_S
        while not proxy.ready():
            if process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"the proxy did not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield proxy
    finally:
        process.terminate()
        process.wait(20)
