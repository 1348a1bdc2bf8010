"""docs/emission.md says what is so."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path

from spanfuse import Guard, otel
from spanfuse.counters import MAX_KEYS
from spanfuse.emission import destination, reports, span_queue
from spanfuse.emission.report_record import EVENT
from tests.client.log_receiver import LogReceiver
from tests.client.test_otel import agent

PAGE = (Path(__file__).parents[2] / "docs" / "emission.md").read_text(encoding="utf-8")


def test_the_numbers_of_the_page_are_those_in_force() -> None:
    assert f"after {otel.SCHEDULE_DELAY_MS} ms, at most {otel.MAX_SCHEDULE_DELAY_MS} ms" in PAGE
    assert f"No more than {span_queue.QUEUE_SPANS:,} spans wait" in PAGE
    assert f"does not take within {otel.EXPORT_TIMEOUT_S:.0f} s" in PAGE
    assert f"takes {destination.EXIT_S:g} s at most for its" in PAGE
    assert f"Every {reports.INTERVAL_S:.0f} s in which something changed" in PAGE
    assert f"({reports.MAX_NAMES} of them by\nname)" in PAGE
    assert f"({MAX_KEYS} keys)" in PAGE
    assert f"guard.flush(timeout_s={signature(Guard.flush).parameters['timeout_s'].default:g})" in PAGE
    assert EVENT in PAGE


def test_its_example_runs_as_it_stands() -> None:
    receiver = LogReceiver()
    try:
        (example,) = [code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "guard.call(" in code]
        made = example.replace("http://127.0.0.1:4318", receiver.url).replace(
            "http://127.0.0.1:8787", "http://127.0.0.1:9"
        )
        lines = [
            "from types import SimpleNamespace as Some",
            "create = lambda **_: {'choices': [], 'usage': {}}",
            "client = Some(chat=Some(completions=Some(create=create)))",
            "messages = [{'role': 'user', 'content': 'What is moss?'}]",
            made,
        ]
        run = agent("\n".join(lines), 60, OTEL_EXPORTER_OTLP_ENDPOINT="", SPANFUSE_REPORT_URL="")
        assert run.returncode == 0, run.stderr
        paths = {request["path"] for request in receiver.requests}
        assert paths == {"/v1/traces", "/v1/logs"}
        assert [(made.agent, made.calls) for told in receiver.taken for made in told.calls] == [("planner", 1)]
    finally:
        receiver.close()
