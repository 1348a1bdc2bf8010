"""docs/proxy.md says what is so: its examples run, its headers, codes and limits are those of the code."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from spanfuse import headers
from spanfuse_processor.proxy import handler, server, settings, whose
from tests.support.fake_provider import FakeProvider
from tests.support.proxied import Proxied, guard

PACKAGE = Path(handler.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "proxy.md").read_text(encoding="utf-8")
MIB = 1024 * 1024


@pytest.fixture
def ran() -> list[str]:
    """What the quickstart prints, four times over."""
    (command,) = re.findall(r"```sh\n(curl .*?)```", PAGE, re.DOTALL)
    environment = {**os.environ, "OPENAI_API_KEY": "sk-test", "no_proxy": "*"}
    with FakeProvider() as provider, Proxied(provider, guard(local=True)) as proxied:
        command = "curl -s" + command.removeprefix("curl").replace("http://127.0.0.1:8788", proxied.url)
        found = [subprocess.run(command, shell=True, env=environment, capture_output=True, text=True) for _ in range(4)]
        assert provider.calls == 3
        assert provider.requests[0].headers["authorization"] == "Bearer sk-test"
    return [one.stdout for one in found]


def test_the_quickstart_runs_and_its_fourth_call_is_refused_as_shown(ran: list[str]) -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert json.loads(ran[2])["choices"]
    refused, example = json.loads(ran[3]), json.loads(shown)
    assert refused.keys() == example.keys()
    assert refused["error"].keys() == example["error"].keys()
    assert (refused["rule"], refused["session_id"]) == (example["rule"], example["session_id"])
    for field in ("reason", "message"):
        assert refused[field].startswith(example[field].split("…")[0].rstrip())


def test_the_headers_that_are_named_are_those_that_are_read() -> None:
    sources = [*PACKAGE.glob("*.py"), Path(headers.__file__)]
    code = "".join(path.read_text(encoding="utf-8") for path in sources)
    ours = r"x-(?:spanfuse|loopers)-[a-z-]*[a-z]"
    assert set(re.findall(ours, PAGE.lower())) == set(re.findall(f'"({ours})"', code))
    assert set(whose.PREFIXES) == {"x-spanfuse-", "x-loopers-"}


def test_the_codes_that_are_named_are_those_that_are_sent() -> None:
    told = dict(re.findall(r"\| (\d+) \| `spanfuse_(\w+)` \|", PAGE))
    code = "".join((PACKAGE / f"{name}.py").read_text() for name in ("handler", "whose", "wire"))
    assert told == dict(re.findall(r'refused\(\s*(\d+), "(\w+)"', code))


def test_the_limits_are_those_of_the_code() -> None:
    assert f"larger than {settings.MAX_BODY_BYTES // MIB} MiB" in PAGE
    assert f"more than {handler.MAX_UNDER_WAY} requests, or {handler.ROOM_BYTES // MIB} MiB" in PAGE
    assert f"waits {server.READY_S:g} s" in PAGE
    assert f"gives streams {server.GRACE_S:g} s" in PAGE
    assert settings.LISTEN in PAGE
    assert headers.FOREVER_S == 3600
