"""Spans leave soon, say whose they are, and never hurt their host."""

from __future__ import annotations

import asyncio
import contextvars
import gzip
import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from spanfuse import Guard, session
from spanfuse.context import carry
from spanfuse.emission.span_queue import PromptSpanProcessor
from spanfuse.fingerprints import AT_HAND, MAX_HELD, fingerprinted
from spanfuse.otel import ContextSpanProcessor
from spanfuse.reading.messages import FINGERPRINT_ATTRIBUTE, Prints
from spanfuse.reading.prints import call_prints
from spanfuse.testing import MemorySubscriber, block, is_blocked
from tests.otlp.fixtures import says


@pytest.fixture
def exported() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exported: InMemorySpanExporter) -> trace.Tracer:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(ContextSpanProcessor())
    provider.add_span_processor(SimpleSpanProcessor(exported))
    return provider.get_tracer("test")


def spans(exported: InMemorySpanExporter) -> dict[str, dict[str, Any]]:
    return {s.name: dict(s.attributes or {}) for s in exported.get_finished_spans()}


def test_every_span_of_a_session_carries_its_names(tracer: trace.Tracer, exported: InMemorySpanExporter) -> None:
    with session("s", agent="a", user="u", team="t"), tracer.start_as_current_span("outer"), session(agent="b"):
        tracer.start_span("inner").end()
    tracer.start_span("outside").end()
    found = spans(exported)
    names = {"session.id": "s", "gen_ai.agent.name": "a", "user.id": "u", "team.id": "t", "spanfuse.team": "t"}
    assert found["outer"] == names
    assert found["inner"] == {**names, "gen_ai.agent.name": "b"}
    assert found["outside"] == {}


def test_what_a_span_says_itself_is_left_alone(tracer: trace.Tracer, exported: InMemorySpanExporter) -> None:
    with session("s", agent="a"):
        tracer.start_span("own", attributes={"session.id": "mine"}).end()
    assert spans(exported)["own"] == {"session.id": "mine", "gen_ai.agent.name": "a"}


def test_a_span_of_another_thread_inherits_from_its_parent(
    tracer: trace.Tracer, exported: InMemorySpanExporter
) -> None:
    with session("s", team="t"), tracer.start_as_current_span("parent") as parent:
        context = trace.set_span_in_context(parent)
        thread = threading.Thread(target=lambda: tracer.start_span("child", context=context).end())
        thread.start()
        thread.join()

        def carried() -> None:
            tracer.start_span("carried").end()

        other = threading.Thread(target=carry(carried))
        other.start()
        other.join()
    assert spans(exported)["child"]["session.id"] == spans(exported)["carried"]["session.id"] == "s"
    assert spans(exported)["child"]["team.id"] == "t"


def test_the_current_trace_names_the_session_of_a_check_that_has_none(tracer: trace.Tracer) -> None:
    guard = Guard(MemorySubscriber(), mode="enforce")
    with tracer.start_as_current_span("work") as span:
        trace_id = f"{span.get_span_context().trace_id:032x}"
        guard.start()
        guard._feed.subscriber.publish(block(f"session:trace:{trace_id}"))  # type: ignore[attr-defined]
        assert is_blocked(guard)
        assert is_blocked(guard, session="named") is None
        guard._feed.subscriber.publish(block(f"trace:{trace_id}"))  # type: ignore[attr-defined]
        assert is_blocked(guard, session="named")
    assert is_blocked(guard) is None


MESSAGES = [{"role": "user", "content": "What is moss?"}]
CALLS = {
    "role": "assistant",
    "tool_calls": [{"id": "c", "function": {"name": "search", "arguments": '{"q": "moss"}'}}],
}


def stated(span: dict[str, Any]) -> Prints:
    found: Prints = Prints.from_json(span[FINGERPRINT_ATTRIBUTE])
    return found


@pytest.fixture
def sending(exported: InMemorySpanExporter) -> Iterator[TracerProvider]:
    """Spans leave as `instrument` sends them."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(ContextSpanProcessor())
    provider.add_span_processor(PromptSpanProcessor(exported, schedule_delay_millis=1))
    yield provider
    provider.shutdown()


def test_a_call_that_is_fingerprinted_says_what_it_asked_and_what_came_back(
    sending: TracerProvider, exported: InMemorySpanExporter
) -> None:
    """On the spans that the instrumentation makes inside; what comes after has none."""
    tracer = sending.get_tracer("instrumentation")
    with fingerprinted(MESSAGES) as call:
        with tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}):
            tracer.start_span("POST").end()
        call.reply = CALLS
    tracer.start_span("after").end()
    sending.force_flush()
    found = spans(exported)
    assert stated(found["chat"]) == stated(found["POST"]) == call_prints(MESSAGES, [CALLS])
    assert found["chat"]["gen_ai.operation.name"] == "chat"
    assert FINGERPRINT_ATTRIBUTE not in found["after"]


def test_a_span_that_waited_for_its_reply_is_as_it_was(sending: TracerProvider, exported: InMemorySpanExporter) -> None:
    with fingerprinted(MESSAGES) as call:
        span = sending.get_tracer("instrumentation", "1.0").start_span("chat", kind=trace.SpanKind.CLIENT)
        span.add_event("first token")
        span.set_status(trace.StatusCode.ERROR, "late")
        span.end()
        call.reply = "A plant."
    sending.force_flush()
    (left,) = exported.get_finished_spans()
    kept = ("name", "context", "parent", "kind", "start_time", "end_time", "resource", "links", "instrumentation_scope")
    assert all(getattr(left, field) == getattr(span, field) for field in kept)
    assert (left.status.description, [event.name for event in left.events]) == ("late", ["first token"])


def test_a_stream_is_stated_when_it_has_been_read(sending: TracerProvider, exported: InMemorySpanExporter) -> None:
    """Its span ends with the last chunk; the reply is what the chunks add up to."""

    def stream() -> Iterator[str]:
        with sending.get_tracer("instrumentation").start_as_current_span("chat"):
            yield from ("A ", "plant.")

    with fingerprinted(MESSAGES) as call:
        call.reply = "".join(stream())
    sending.force_flush()
    assert stated(spans(exported)["chat"]).actions == call_prints(MESSAGES, [says("A plant.", "assistant")]).actions


def test_a_call_that_fails_states_what_it_asked(sending: TracerProvider, exported: InMemorySpanExporter) -> None:
    tracer = sending.get_tracer("instrumentation")
    with pytest.raises(TimeoutError), fingerprinted(MESSAGES), tracer.start_as_current_span("chat"):
        raise TimeoutError
    sending.force_flush()
    assert stated(spans(exported)["chat"]) == call_prints(MESSAGES, None)


def test_calls_at_the_same_time_are_told_apart(sending: TracerProvider, exported: InMemorySpanExporter) -> None:
    async def ask(topic: str) -> None:
        with fingerprinted(f"What is {topic}?") as call:
            with sending.get_tracer("instrumentation").start_as_current_span(topic):
                await asyncio.sleep(0)
            call.reply = f"About {topic}"

    async def both() -> None:
        await asyncio.gather(ask("moss"), ask("rope"))

    asyncio.run(both())
    sending.force_flush()
    for topic in ("moss", "rope"):
        asked, answered = says(f"What is {topic}?"), says(f"About {topic}", "assistant")
        assert stated(spans(exported)[topic]) == call_prints([asked], [answered])


def test_a_block_that_was_left_elsewhere_says_nothing_of_later_spans(
    sending: TracerProvider, exported: InMemorySpanExporter
) -> None:
    """An asynchronous generator may be closed in another context: where it began, its call is over all the same."""
    call = fingerprinted(MESSAGES)
    call.__enter__()
    contextvars.Context().run(call.__exit__)
    sending.get_tracer("instrumentation").start_span("later").end()
    sending.force_flush()
    assert FINGERPRINT_ATTRIBUTE not in spans(exported)["later"]
    AT_HAND.set(None)


def test_a_span_that_ends_after_the_block_leaves_with_what_was_asked(
    sending: TracerProvider, exported: InMemorySpanExporter
) -> None:
    with fingerprinted(MESSAGES) as call:
        span = sending.get_tracer("instrumentation").start_span("chat")
        call.reply = CALLS
    span.end()
    sending.force_flush()
    assert stated(spans(exported)["chat"]) == call_prints(MESSAGES, None)


@pytest.mark.parametrize("messages", [7, object(), [object], None])
def test_messages_that_cannot_be_read_hurt_nobody(
    sending: TracerProvider, exported: InMemorySpanExporter, messages: Any
) -> None:
    with fingerprinted(messages) as call:
        sending.get_tracer("instrumentation").start_span("chat").end()
        call.reply = object()
    sending.force_flush()
    assert "chat" in spans(exported)


def test_another_pipeline_gets_what_was_asked(tracer: trace.Tracer, exported: InMemorySpanExporter) -> None:
    """Only spans on the way of `instrument` wait for the reply."""
    with fingerprinted(MESSAGES) as call:
        tracer.start_span("chat").end()
        call.reply = CALLS
    assert stated(spans(exported)["chat"]) == call_prints(MESSAGES, None)


def test_no_more_than_64_spans_wait_for_a_reply(sending: TracerProvider, exported: InMemorySpanExporter) -> None:
    with fingerprinted(MESSAGES) as call:
        for _ in range(MAX_HELD + 6):
            sending.get_tracer("instrumentation").start_span("chat").end()
        sending.force_flush()
        assert len(exported.get_finished_spans()) == 6
        call.reply = CALLS
    sending.force_flush()
    assert len(exported.get_finished_spans()) == MAX_HELD + 6


def test_a_history_that_the_agent_goes_on_with_is_that_of_the_call(
    sending: TracerProvider, exported: InMemorySpanExporter
) -> None:
    history: list[dict[str, Any]] = [*MESSAGES]
    with fingerprinted(history) as call:
        sending.get_tracer("instrumentation").start_span("chat").end()
        call.reply = CALLS
        history.append(CALLS)
    sending.force_flush()
    assert stated(spans(exported)["chat"]) == call_prints(MESSAGES, [CALLS])


def test_the_key_of_all_workers_comes_from_the_environment() -> None:
    run = agent(
        """
        from spanfuse.fingerprints import of_call
        from spanfuse_schemas.wording import key_id
        print(key_id() in of_call("What is moss?", None)["spanfuse.fingerprint"], key_id())
        """,
        SPANFUSE_FINGERPRINT_KEY="of all workers",
    )
    found, key = run.stdout.split()
    assert found == "True", run.stderr
    assert re.fullmatch("[0-9a-f]{8}", key)


class Receiver:
    """An OTLP/HTTP endpoint that notes spans; GET tells the names of those that came."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.headers: list[dict[str, str]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                """Quiet."""

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.headers.append({"path": self.path, **dict(self.headers)})
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in resource.scope_spans:
                        receiver.spans += scope.spans
                self._answer(b"")

            def do_GET(self) -> None:
                self._answer(" ".join(span.name for span in receiver.spans).encode())

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    running = Receiver()
    yield running
    running.server.shutdown()
    running.server.server_close()


def agent(code: str, timeout_s: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
    """An agent in an interpreter of its own, where `instrument` may set the global provider."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(("asked_ms", "taken_s"), [(None, 0.005), (20, 0.02), (5_000, 0.05), (0, 0.001)])
def test_a_finished_span_waits_for_50_ms_at_most(asked_ms: int | None, taken_s: float) -> None:
    """Before it is sent; then a runaway is seen at the call that shows it."""
    asked = "" if asked_ms is None else f", schedule_delay_ms={asked_ms}"
    run = agent(f"""
        from spanfuse import instrument
        *_, sends = instrument("http://127.0.0.1:9"{asked})._active_span_processor._span_processors
        print(sends._batch_processor._schedule_delay)
    """)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) == taken_s


def test_spans_are_sent_while_the_agent_runs_and_the_last_ones_at_exit(receiver: Receiver) -> None:
    run = agent(f"""
        import time
        from urllib.request import urlopen
        from opentelemetry import trace
        from spanfuse import instrument, session
        provider = instrument({receiver.url!r}, service_name="svc", headers={{"x-key": "1"}})
        assert instrument() is provider is trace.get_tracer_provider()
        tracer = trace.get_tracer("agent")
        with session("s", agent="a"):
            tracer.start_span("first").end()
            deadline = time.monotonic() + 30
            while urlopen({receiver.url!r}).read() != b"first":
                assert time.monotonic() < deadline, "it waits for the exit"
                time.sleep(0.01)
            tracer.start_span("last").end()
    """)
    assert run.returncode == 0, run.stderr
    first, last = receiver.spans
    assert (first.name, last.name) == ("first", "last")
    assert {a.key: a.value.string_value for a in first.attributes} == {"session.id": "s", "gen_ai.agent.name": "a"}
    assert receiver.headers[0]["path"] == "/v1/traces"
    assert receiver.headers[0]["x-key"] == "1"


def test_a_provider_that_the_host_has_set_is_added_to(receiver: Receiver) -> None:
    run = agent(f"""
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from spanfuse import instrument
        mine = TracerProvider()
        trace.set_tracer_provider(mine)
        assert instrument({receiver.url + "/v1/traces"!r}) is mine
        trace.get_tracer("agent").start_span("only").end()
    """)
    assert run.returncode == 0, run.stderr
    assert [span.name for span in receiver.spans] == ["only"]
    assert receiver.headers[0]["path"] == "/v1/traces"


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_receiver_that_is_away_costs_spans_and_not_time(protocol: str) -> None:
    run = agent(f"""
        import time
        from opentelemetry import trace
        from spanfuse import instrument
        instrument("http://127.0.0.1:9", protocol={protocol!r})
        tracer = trace.get_tracer("agent")
        begin = time.perf_counter()
        for i in range(10_000):
            tracer.start_span("x").end()
        print(time.perf_counter() - begin, time.time())
    """)
    ended = time.time()
    assert run.returncode == 0, run.stderr
    spent, exit_began = map(float, run.stdout.split())
    assert spent < 5
    assert ended - exit_began < 6


def test_settings_that_do_not_work_are_said_and_hurt_nobody() -> None:
    run = agent("""
        from spanfuse import instrument
        provider = instrument("http://127.0.0.1:9", headers=5)
        provider.get_tracer("x").start_span("x").end()
        print("alive")
    """)
    assert run.stdout == "alive\n", run.stderr
    assert "no spans are sent to spanfuse" in run.stderr
