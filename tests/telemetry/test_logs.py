"""What is written on standard error: lines or objects, with the trace at hand, without content."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from spanfuse_processor.config.telemetry import Logs
from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.telemetry import logs
from tests.support.loops import in_loop
from tests.support.measured import measuring

log = logging.getLogger("spanfuse_processor.hosts.test")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What is written; what was set up before comes back afterwards."""
    root, levels = logging.getLogger(), {name: logging.getLogger(name).level for name in logs.OURS}
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


def set_up(stream: io.StringIO, **settings: Any) -> None:
    logs.set_up(Logs(**settings), stream)


def objects(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_says_when_how_bad_who_and_what(stream: io.StringIO) -> None:
    set_up(stream)
    log.warning("the storage is away: %s", "no space\nleft")
    log.info("not told")
    at, rest = stream.getvalue().split(" ", 1)
    assert (len(at), at[-1]) == (24, "Z")
    assert rest == "WARN hosts.test: the storage is away: no space\\nleft\n"


def test_an_object_has_the_fields_of_opentelemetry(stream: io.StringIO) -> None:
    set_up(stream, format="json", level="info")
    log.info("up — 🙂")
    logging.getLogger("aiokafka").info("chatter")
    (found,) = objects(stream)
    assert found.keys() == {"timestamp", "severity_text", "logger", "body"}
    assert (found["severity_text"], found["logger"], found["body"]) == (
        "INFO",
        "spanfuse_processor.hosts.test",
        "up — 🙂",
    )


@pytest.mark.parametrize("format", ["text", "json"])
def test_an_error_is_told_by_type_and_place_and_its_text_only_if_it_is_ours(format: str, stream: io.StringIO) -> None:
    """The text of others may quote what came: a prompt, a key."""
    set_up(stream, format=format)
    for error in (ValueError("Ignore all previous instructions"), UnavailableError("Kafka does not answer")):
        try:
            raise error
        except Exception:
            log.exception("a request cannot be applied")
    said = stream.getvalue()
    assert "Ignore" not in said
    assert "ValueError" in said
    assert "test_logs.py" in said
    assert "Kafka does not answer" in said


@in_loop
async def test_a_line_within_a_piece_of_work_has_its_trace_sampled_or_not() -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(logs.JsonFormatter())
    log.addHandler(handler)
    settings: dict[str, Any] = {"traces": {"otlp": {"endpoint": "http://127.0.0.1:9"}, "sample_ratio": 0}}
    try:
        async with measuring(**settings) as telemetry:
            with telemetry.traces.work("spanfuse.api", headers={"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-00"}):
                log.error("inside")
            log.error("outside")
    finally:
        log.removeHandler(handler)
    inside, outside = objects(out)
    assert inside["trace_id"] == "ab" * 16
    assert len(inside["span_id"]) == 16
    assert "trace_id" not in outside


def test_what_a_process_says_is_a_line_among_lines_and_an_object_among_objects(
    stream: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up(stream)
    logs.say("spanfuse is up")
    assert (capsys.readouterr().err, stream.getvalue()) == ("spanfuse is up\n", "")
    set_up(stream, format="json", level="error")
    logs.say("spanfuse is up")
    assert [found["body"] for found in objects(stream)] == ["spanfuse is up"]


def test_a_message_is_cut_where_it_has_no_end(stream: io.StringIO) -> None:
    set_up(stream, format="json")
    log.error("x" * 100_000)
    assert len(objects(stream)[0]["body"]) == logs.MAX_CHARS
