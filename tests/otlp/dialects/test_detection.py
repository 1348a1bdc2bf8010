"""Which dialect a span speaks, whatever else was copied onto it."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse_processor.otlp.dialects import DIALECTS, dialect_of
from spanfuse_processor.otlp.dialects.detect import Detector
from spanfuse_processor.otlp.dialects.dialect import Dialect
from tests.otlp.fixtures import call, span

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o-mini"}
COPIED = {
    "session.id": "s",
    "langfuse.session.id": "x",
    "langfuse.trace.metadata.team": '"t"',
    "langfuse.environment": "prod",
    "traceloop.association.properties.user_id": "u",
    "traceloop.workflow.name": "flow",
    "traceloop.entity.path": "flow.guide",
    "langsmith.metadata.thread_id": "x",
    "mlflow.traceRequestId": '"tr-1"',
    "ai.telemetry.metadata.sessionId": "x",
}
"""What the processors of several libraries put on every span of a process."""


@pytest.mark.parametrize(
    ("scope", "own"),
    [
        ("ai", {"ai.operationId": "ai.generateText.doGenerate"}),
        ("gen_ai", CHAT),
        ("litellm", {"llm.request.type": "completion", **CHAT}),
        ("strands.telemetry.tracer", CHAT),
        ("gcp.vertex.agent", CHAT),
        ("pydantic-ai", CHAT),
        ("langfuse-sdk", {"langfuse.observation.type": "generation"}),
        ("mlflow.tracing.provider", {"mlflow.spanType": '"CHAT_MODEL"'}),
        ("openinference.instrumentation.openai", {"openinference.span.kind": "LLM"}),
        ("opentelemetry.instrumentation.openai_v2", CHAT),
        ("opentelemetry.instrumentation.openai.v1", {"gen_ai.is_streaming": False, **CHAT}),
    ],
)
def test_what_is_copied_onto_all_spans_changes_no_dialect(scope: str, own: dict[str, Any]) -> None:
    plain, marked = span(own, scope=scope), span(own | COPIED, scope=scope)
    assert dialect_of(marked) is dialect_of(plain)
    found = call(marked)
    assert (found.kind, found.session, found.user, found.team) == ("llm", "s", "u", "t")


def test_spans_that_were_translated_are_read_as_what_they_became() -> None:
    for scope in ("ai", "pydantic-ai", "strands.telemetry.tracer"):
        assert dialect_of(span({"openinference.span.kind": "LLM", **CHAT}, scope=scope)).name == "openinference"


def test_a_scope_goes_before_an_attribute_and_an_attribute_before_a_name() -> None:
    rows = (
        Dialect(name="named", span_names=("work",)),
        Dialect(name="marked", attributes=("mark", ("kind", "llm"))),
        Dialect(name="scoped", scopes=("lib", "family.*")),
    )
    default = Dialect(name="default")
    detect = Detector(rows, default)
    assert detect(span({"mark": 1}, scope="lib", name="work 1")).name == "scoped"
    assert detect(span({}, scope="family.one")).name == "scoped"
    assert detect(span({"mark": 1}, name="work 1")).name == "marked"
    assert detect(span({"kind": "llm"})).name == "marked"
    assert detect(span({"kind": "tool"}, name="work 1")).name == "named"
    assert detect(span({})) is default


def test_scopes_without_end_take_no_memory_without_end() -> None:
    detect = Detector((), Dialect(name="default"))
    for i in range(10_000):
        detect(span({}, scope=f"scope {i}"))
    assert len(detect._seen) <= 4_096


def test_every_dialect_but_the_last_has_a_mark() -> None:
    for row in DIALECTS[:-1]:
        assert row.scopes or row.attributes or row.overrides or row.span_names
