"""Spans that could not be sent are counted, each once, whatever the reason."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from spanfuse.emission.span_queue import PromptSpanProcessor
from spanfuse.otel import dropped
from tests.client.test_otel import agent
from tests.client.waiting import wait_until

QUEUE = 100
BATCH = 10


class Receiver(SpanExporter):
    """One that can be held up, and can fail."""

    def __init__(self) -> None:
        self.came = 0
        self.free, self.at_work = threading.Event(), threading.Event()
        self.free.set()
        self.result = SpanExportResult.SUCCESS
        self.error: Exception | None = None

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.at_work.set()
        self.free.wait(10)
        if self.error is not None:
            raise self.error
        if self.result is SpanExportResult.SUCCESS:
            self.came += len(spans)
        return self.result


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def provider(receiver: Receiver) -> Iterator[TracerProvider]:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(
        PromptSpanProcessor(receiver, queue_spans=QUEUE, schedule_delay_millis=1, max_export_batch_size=BATCH)
    )
    yield provider
    receiver.free.set()
    provider.shutdown()


def end_spans(provider: TracerProvider, number: int) -> None:
    tracer = provider.get_tracer("test")
    for _ in range(number):
        tracer.start_span("x").end()


def test_a_receiver_that_keeps_up_costs_none(provider: TracerProvider, receiver: Receiver) -> None:
    before = dropped()
    end_spans(provider, 1_000)
    provider.force_flush()
    wait_until(lambda: receiver.came + dropped() - before == 1_000)
    end_spans(provider, 1)
    provider.force_flush()
    assert receiver.came + dropped() - before == 1_001


def test_a_slow_receiver_costs_what_the_queue_does_not_hold(provider: TracerProvider, receiver: Receiver) -> None:
    before = dropped()
    receiver.free.clear()
    end_spans(provider, 1)
    assert receiver.at_work.wait(10)
    end_spans(provider, QUEUE)
    assert dropped() == before
    end_spans(provider, 37)
    assert dropped() - before == 37
    receiver.free.set()
    provider.force_flush()
    assert receiver.came == 1 + QUEUE
    assert dropped() - before == 37


def test_threads_that_end_spans_at_once_lose_none_unseen(provider: TracerProvider, receiver: Receiver) -> None:
    before = dropped()
    threads = [threading.Thread(target=end_spans, args=(provider, 500)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    provider.force_flush()
    wait_until(lambda: receiver.came + dropped() - before == 4_000, what=f"{receiver.came} and {dropped() - before}")


@pytest.mark.parametrize("fails", ["by its answer", "with an error"])
def test_a_batch_that_is_not_taken_is_counted(provider: TracerProvider, receiver: Receiver, fails: str) -> None:
    before = dropped()
    receiver.result = SpanExportResult.FAILURE
    receiver.error = ConnectionError("away") if fails == "with an error" else None
    end_spans(provider, 25)
    provider.force_flush()
    assert dropped() - before == 25


def test_what_ends_after_the_end_is_counted(provider: TracerProvider, receiver: Receiver) -> None:
    before = dropped()
    provider.shutdown()
    end_spans(provider, 3)
    assert dropped() - before == 3


def test_a_flush_takes_no_longer_than_it_may(provider: TracerProvider, receiver: Receiver) -> None:
    receiver.free.clear()
    end_spans(provider, 1)
    assert not provider.force_flush(50)
    receiver.free.set()
    assert provider.force_flush(10_000)
    assert receiver.came == 1


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "kafka://127.0.0.1:9"])
def test_a_receiver_that_is_away_costs_every_span(endpoint: str) -> None:
    run = agent(f"""
        from opentelemetry import trace
        from spanfuse import instrument
        from spanfuse.otel import dropped, flush
        provider = instrument({endpoint!r})
        for _ in range(123):
            trace.get_tracer("agent").start_span("x").end()
        flush(20)
        provider.shutdown()
        print(dropped())
    """)
    assert run.stdout == "123\n", run.stderr


def test_a_forked_child_counts_its_own() -> None:
    run = agent("""
        import os
        from spanfuse.counters import SPANS_DROPPED
        from spanfuse.otel import dropped
        SPANS_DROPPED.add(5)
        if os.fork():
            print(os.wait()[1], dropped())
        else:
            SPANS_DROPPED.add(2)
            os._exit(dropped())
    """)
    assert run.stdout == f"{2 << 8} 5\n", run.stderr


def test_kafka_that_is_away_is_said_once_and_why() -> None:
    run = agent("""
        from opentelemetry import trace
        from spanfuse import instrument
        from spanfuse.otel import flush
        provider = instrument("kafka://127.0.0.1:9")
        for _ in range(3):
            trace.get_tracer("agent").start_span("x").end()
            flush(20)
        provider.shutdown()
    """)
    assert run.stderr.count("Kafka 127.0.0.1:9: what is written to otlp_spans is lost: ") == 1, run.stderr
    assert run.stderr.count("\n") == 1, run.stderr
