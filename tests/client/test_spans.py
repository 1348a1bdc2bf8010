"""Spans that a Guard makes of the calls it is told of: ingest makes exactly one call of each, whatever else tells of it."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Generator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from spanfuse import Blocked, Guard
from spanfuse.emission.spans import CallSpans
from spanfuse.otel import ContextSpanProcessor
from spanfuse.testing import MemorySubscriber, block
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.pricing import Prices
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.otlp.decode import decode
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_schemas import Call, CallBatch, Policy, Tokens
from tests.otlp.fixtures import SECOND

QUESTION = "What is the secret of moss?"
MESSAGES = [{"role": "user", "content": QUESTION}]
ANSWER: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-4o-2024-08-06",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "It is a plant."}}],
    "usage": {
        "prompt_tokens": 1_200,
        "completion_tokens": 340,
        "prompt_tokens_details": {"cached_tokens": 1_000},
        "completion_tokens_details": {"reasoning_tokens": 128},
    },
}
NAMES: dict[str, Any] = {"session": "run-1", "agent": "planner", "user": "ada", "team": "shop"}


class Traced:
    """A Guard that makes spans, and what ingest makes of them."""

    def __init__(self) -> None:
        self.exported = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(ContextSpanProcessor())
        self.provider.add_span_processor(SimpleSpanProcessor(self.exported))
        self.guard = Guard(MemorySubscriber(block("session:stopped")), mode="enforce")
        self.guard.listen(CallSpans(self.provider))

    @property
    def request(self) -> bytes:
        data: bytes = encode_spans(self.exported.get_finished_spans()).SerializeToString()
        return data

    def calls(self, *, apart: bool = False) -> list[Call]:
        """The calls that count.

        Args:
            apart: each span comes in a request of its own.
        """
        normaliser, spans = Normaliser(Prices()), decode(self.request, "protobuf")
        received_ns = max(span.end_ns for span in spans) + SECOND
        batches = (
            [normaliser.batch([s], received_ns) for s in spans] if apart else [normaliser.batch(spans, received_ns)]
        )
        pipeline, states = Pipeline(Policy()), dict[str, SessionState]()
        counted: list[Call] = []
        for offset, batch in enumerate(batches):
            for at, call in enumerate(batch.calls):
                out = pipeline.process(
                    CallBatch.model_construct(calls=(call,)),
                    lambda session: states.setdefault(session, SessionState(session)),
                    source="test",
                    offset=offset * 1_000 + at,
                )
                counted += [call] * out.counted
        return counted

    @property
    def foreign(self) -> trace.Tracer:
        """Another instrumentation."""
        return self.provider.get_tracer("opentelemetry.instrumentation.openai_v2")


@pytest.fixture
def traced() -> Traced:
    return Traced()


def foreign_span(traced: Traced, **more: Any) -> None:
    """A span of the same call as the instrumentation of the provider's client makes it."""
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.response.model": "gpt-4o-2024-08-06",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.usage.input_tokens": 1_200,
        "gen_ai.usage.output_tokens": 340,
        **more,
    }
    with traced.foreign.start_as_current_span("chat gpt-4o", kind=trace.SpanKind.CLIENT) as span:
        span.set_attributes(attributes)


def test_a_call_is_one_span_that_says_what_ingest_asks_for(traced: Traced) -> None:
    with traced.guard.call(model="gpt-4o", provider="openai", messages=MESSAGES, **NAMES) as call:
        call.answered(ANSWER)
    (span,) = traced.exported.get_finished_spans()
    assert (span.name, span.kind, span.status.status_code) == (
        "chat gpt-4o",
        trace.SpanKind.CLIENT,
        trace.StatusCode.UNSET,
    )
    assert (span.start_time, span.end_time) == (call.began_ns, call.ended_ns)
    (found,) = traced.calls()
    assert (found.session, found.agent, found.user, found.team) == ("run-1", "planner", "ada", "shop")
    assert (found.provider, found.model, found.operation) == ("openai", "gpt-4o-2024-08-06", "chat")
    assert found.tokens == Tokens(input=1_200, output=340, cache_read=1_000, reasoning=128)
    assert (found.finish_reason, found.error_type, found.cost_source) == ("stop", "", "computed")
    assert found.response
    assert found.content == "fingerprint"
    assert found.input is not None
    assert found.action is not None


def test_no_text_leaves_the_process(traced: Traced) -> None:
    with traced.guard.call(model="m", messages=MESSAGES, system="You are a botanist.", **NAMES) as call:
        call.answered(ANSWER)
    with traced.guard.tool("search", {"q": "moss in Norway"}) as tool:
        tool.result("It rains there.")
    assert not [text for text in (b"moss", b"plant", b"botanist", b"rains") if text in traced.request]


@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
def test_another_instrumentation_inside_is_the_same_call(traced: Traced, apart: bool) -> None:
    with traced.guard.call(model="gpt-4o", provider="openai", messages=MESSAGES, **NAMES) as call:
        foreign_span(traced)
        call.answered(ANSWER)
    inner, outer = traced.exported.get_finished_spans()
    assert inner.parent is not None
    assert outer.context is not None
    assert inner.parent.span_id == outer.context.span_id
    (found,) = traced.calls(apart=apart)
    assert (found.session, found.tokens.input, found.tokens.output) == ("run-1", 1_200, 340)
    assert apart or found.content == "fingerprint"


@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
def test_one_whose_span_lies_around_ours_is_the_same_call(traced: Traced, apart: bool) -> None:
    """A gateway's or framework's span of the call, within which our client is called."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", "session.id": "run-1"}
    with (
        traced.foreign.start_as_current_span("chat gpt-4o", attributes=attributes),
        traced.guard.call(model="gpt-4o", provider="openai", messages=MESSAGES, **NAMES) as call,
    ):
        call.answered(ANSWER)
    assert len(traced.calls(apart=apart)) == 1


@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
def test_one_beside_it_is_known_by_the_id_of_the_response(traced: Traced, apart: bool) -> None:
    """Where callbacks tell of before and after, nothing is inside: the spans have nothing but their times in common."""
    call = traced.guard.call(model="gpt-4o", provider="openai", messages=MESSAGES, **NAMES)
    call.begin()
    foreign_span(traced, **{"session.id": "run-1"})
    call.answered(ANSWER)
    call.end()
    inner, outer = traced.exported.get_finished_spans()
    assert inner.parent is None
    assert outer.parent is None
    (found,) = traced.calls(apart=apart)
    assert found.tokens.input == 1_200


def test_a_stream_is_told_when_it_has_been_read(traced: Traced) -> None:
    def chunk(text: str, **more: Any) -> dict[str, Any]:
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
        return {"id": "c", "object": "chat.completion.chunk", "model": "gpt-4o", "choices": [choice], **more}

    with traced.guard.call(model="gpt-4o", messages=MESSAGES, **NAMES) as call:
        call.chunk(chunk("It is "))
        call.chunk(chunk("a plant."))
        call.chunk({**chunk(""), "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 4}})
    (found,) = traced.calls()
    assert (found.tokens.input, found.tokens.output) == (10, 4)
    assert found.action is not None


def test_a_failure_says_what_failed(traced: Traced) -> None:
    class RateLimitError(Exception):
        status_code = 429

    with pytest.raises(RateLimitError), traced.guard.call(model="gpt-4o", messages=MESSAGES, **NAMES):
        raise RateLimitError("slow down, reader of secrets")
    (found,) = traced.calls()
    assert found.error_class == "provider"
    assert "RateLimitError" in found.error_type
    assert b"secrets" not in traced.request


def test_a_call_that_is_refused_has_no_span(traced: Traced) -> None:
    with pytest.raises(Blocked), traced.guard.call(model="m", session="stopped"):
        raise AssertionError("it is made")
    assert not traced.exported.get_finished_spans()


def test_a_tool_is_one_execution(traced: Traced) -> None:
    with (
        traced.guard.session("run-1", agent="planner"),
        traced.guard.tool("search", {"q": "moss"}, call_id="call_1") as tool,
    ):
        tool.result({"found": 3})
    (span,) = traced.exported.get_finished_spans()
    assert span.name == "execute_tool search"
    (found,) = traced.calls()
    assert (found.kind, found.session, found.agent, found.content) == ("tool", "run-1", "planner", "fingerprint")


def test_a_tool_that_fails_says_so(traced: Traced) -> None:
    with pytest.raises(KeyError), traced.guard.tool("search", {"q": "moss"}, session="run-1"):
        raise KeyError("moss")
    (found,) = traced.calls()
    assert (found.error_type, found.error_class) == ("KeyError", "tool")


def test_a_call_inside_a_call_is_one_span(traced: Traced) -> None:
    with traced.guard.call(model="outer", **NAMES), traced.guard.call(model="inner"):
        pass
    assert [span.name for span in traced.exported.get_finished_spans()] == ["chat outer"]


def test_calls_at_the_same_time_are_told_apart(traced: Traced) -> None:
    async def ask(name: str) -> None:
        async with traced.guard.call(model=name, session=name):
            with traced.foreign.start_as_current_span(f"POST {name}"):
                await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(*(ask(f"m{i}") for i in range(20)))
        assert not trace.get_current_span().get_span_context().is_valid

    asyncio.run(both())
    spans = {span.name: span for span in traced.exported.get_finished_spans()}
    for i in range(20):
        inner, outer = spans[f"POST m{i}"], spans[f"chat m{i}"]
        assert inner.parent is not None
        assert outer.context is not None
        assert inner.parent.span_id == outer.context.span_id


def test_what_comes_after_a_call_is_not_inside_it(traced: Traced) -> None:
    with traced.foreign.start_as_current_span("work") as work:
        with traced.guard.call(model="m"):
            assert trace.get_current_span() is not work
        assert trace.get_current_span() is work


def test_a_generator_that_is_closed_elsewhere_leaves_no_span_behind(traced: Traced) -> None:
    def stream() -> Generator[int]:
        with traced.guard.call(model="m"):
            yield 1

    stopped = stream()
    contextvars.Context().run(next, stopped)
    with traced.foreign.start_as_current_span("work") as work:
        stopped.close()
        assert trace.get_current_span() is work
    assert "chat m" in {span.name for span in traced.exported.get_finished_spans()}
    assert traced.guard.counters.errors == 0


def test_an_asynchronous_generator_too(traced: Traced) -> None:
    async def stream() -> AsyncIterator[int]:
        async with traced.guard.call(model="m"):
            yield 1

    async def main() -> None:
        async for _ in stream():
            break

    asyncio.run(main())
    assert traced.guard.counters.errors == 0


def test_without_a_provider_nothing_is_made_and_nothing_fails() -> None:
    guard = Guard(MemorySubscriber())
    guard.listen(CallSpans())
    with guard.call(model="m", messages=MESSAGES) as call:
        call.answered(ANSWER)
    assert guard.counters.errors == 0
