"""docs/receiver.md says what is so: paths, services, names, limits, and a configuration that loads."""

from __future__ import annotations

import re
from pathlib import Path

from spanfuse_processor.config import load_config
from spanfuse_processor.otlp import export, logs, room
from spanfuse_schemas.topics import OTLP_LOGS, OTLP_SPANS, TOPICS
from tests.services.certificates import Certificates

PAGE = (Path(__file__).parents[2] / "docs" / "receiver.md").read_text(encoding="utf-8")
MIB = 1024 * 1024


def test_the_table_of_signals_is_that_of_the_receiver() -> None:
    told = re.findall(r"\| `POST (/\S+)` \| `(\w+)` \|", PAGE)
    assert told == [(signal.path, signal.service.rpartition(".")[2]) for signal in export.SIGNALS.values()]


def test_the_limits_are_those_of_the_code() -> None:
    assert f"larger than {export.MAX_REQUEST_BYTES // MIB} MiB" in PAGE
    assert f"more than {export.BODY_TIMEOUT_S:g} s to arrive" in PAGE
    assert f"{export.MAX_REQUESTS} requests at once on each protocol, and for {room.MAX_BYTES // MIB} MiB" in PAGE
    assert f"for {logs.WAIT_NS // (60 * 10**9)} minutes at most, and content in {logs.MAX_BYTES // MIB} MiB" in PAGE
    assert {int(t.config["max.message.bytes"]) for t in TOPICS if t.name in (OTLP_SPANS, OTLP_LOGS)} == {16 * MIB}


def test_the_events_that_are_named_are_those_that_are_joined() -> None:
    """But for two that only old instrumentation writes."""
    named = set(re.findall(r"`((?:gen_ai|claude_code)\.[\w.]+)`", PAGE))
    assert logs.CONTENT - named == {"gen_ai.content.prompt", "gen_ai.content.completion"}
    assert named <= logs.CONTENT


def test_the_configuration_loads(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    (block,) = re.findall(r"```yaml\n(receivers:.*?)```", PAGE, re.DOTALL)
    for name, file in (("server.pem", "server"), ("server.key", "server"), ("clients.pem", "cafile")):
        block = block.replace(name, str(getattr(certificates, file)))
    (tmp_path / "up.yaml").write_text(block)
    found = load_config(tmp_path / "up.yaml", {"SPANFUSE_OTLP_TOKEN": "x"})
    assert found.receivers.otlp is not None
    assert found.receivers.otlp.auth is not None
