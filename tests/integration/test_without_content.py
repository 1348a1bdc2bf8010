"""An agent whose texts never leave its process is stopped all the same: SDK → OTLP → `spanfuse up` → Guard."""

from __future__ import annotations

import json
import sqlite3
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult

from spanfuse import Blocked, Guard
from spanfuse.emission.span_queue import PromptSpanProcessor
from spanfuse.fingerprints import fingerprinted, state_tool
from spanfuse.otel import ContextSpanProcessor
from tests.client.waiting import wait_until
from tests.support.hosts import Deployment, embedded

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

SECRET = "secret-123"
RESULT = f"the text of a file, long enough to be told from a mere acknowledgement: {SECRET}"


@pytest.fixture(scope="module")
def fuse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with embedded(tmp_path_factory.mktemp("fuse"), {"service": {"mode": "enforce"}}) as running:
        yield running


class Watching(OTLPSpanExporter):
    """Sends spans over HTTP, and keeps what left."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(endpoint=endpoint)
        self.left: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.left += spans
        return super().export(spans)


@pytest.fixture
def sent(fuse: Deployment) -> Watching:
    return Watching(f"{fuse.otlp}/v1/traces")


@pytest.fixture
def tracer(sent: Watching) -> Iterator[trace.Tracer]:
    """An instrumentation whose spans leave as `instrument` sends them."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(ContextSpanProcessor())
    provider.add_span_processor(PromptSpanProcessor(sent, schedule_delay_millis=5))
    yield provider.get_tracer("instrumentation")
    provider.shutdown()


def told(fuse: Deployment, session: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{fuse.api}/v1/sessions/{session}", timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError:
        return {"calls": 0}


def model_call(tracer: trace.Tracer, messages: list[dict[str, Any]], number: int) -> dict[str, Any]:
    """The instrumented client, with content capture off, and a model that reads the same file again and again."""
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 10,
    }
    tracer.start_span("chat gpt-4o-mini", attributes=attributes, kind=trace.SpanKind.CLIENT).end()
    function = {"name": "read", "arguments": json.dumps({"path": f"/home/{SECRET}"})}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [call]}}]}


def run(fuse: Deployment, guard: Guard, tracer: trace.Tracer, name: str, *, tools: bool) -> Blocked:
    """The agent, until it is refused; each time the host has seen the call before."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"What is in {SECRET}?"}]
    with guard.session(name, agent="reader"), tracer.start_as_current_span("run"):
        for number in range(8):
            try:
                guard.check(messages=messages)
            except Blocked as refusal:
                assert number == 3, f"{number} calls were made"
                return refusal
            with fingerprinted(messages) as call:
                call.reply = response = model_call(tracer, messages, number)
            asked = response["choices"][0]["message"]
            if tools:
                with tracer.start_as_current_span("execute_tool read") as span:
                    span.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read"})
                    state_tool(span, "read", asked["tool_calls"][0]["function"]["arguments"], RESULT)
            messages = [*messages, asked, {"role": "tool", "tool_call_id": f"call_{number}", "content": RESULT}]
            wait_until(lambda number=number: told(fuse, name)["calls"] > number)  # type: ignore[misc]
            if number >= 2:
                wait_until(lambda: any(d.key == f"session:{name}" for d in guard.decisions()))
    raise AssertionError("it was not stopped")


@pytest.mark.parametrize("tools", [False, True])
def test_a_loop_is_stopped_that_shows_in_fingerprints_alone(
    fuse: Deployment, tracer: trace.Tracer, sent: Watching, tools: bool
) -> None:
    """At the same call as with content, whether tools make spans or not; no text is in a span, nor in what the host keeps."""
    name = f"unseen-{tools}"
    with Guard(fuse.guard) as guard:
        assert guard.wait_ready(20)
        refusal = run(fuse, guard, tracer, name, tools=tools)
    assert (refusal.key, refusal.rule) == (f"session:{name}", "repeat.no_progress")
    assert SECRET not in "".join(span.to_json() for span in sent.left)
    with sqlite3.connect(fuse.config.with_name("spanfuse.db")) as database:
        kept = "".join(database.iterdump())
    assert name in kept
    assert SECRET not in kept
    assert SECRET not in "".join(fuse.lines)
