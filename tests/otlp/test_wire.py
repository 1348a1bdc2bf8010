"""The exporters of opentelemetry-python against the receiver: what an agent sends arrives as calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

from spanfuse.messages import new_input
from spanfuse_processor import config
from spanfuse_processor.otlp.decode import decode
from spanfuse_processor.otlp.export import ExportResult
from spanfuse_processor.otlp.receiver import OtlpReceiver
from spanfuse_schemas import Call
from tests.otlp.fixtures import NOW_NS, normaliser

ON_FREE_PORTS = {"protocols": {name: {"endpoint": "127.0.0.1:0"} for name in ("http", "grpc")}}


@contextmanager
def receiver_in_a_thread() -> Iterator[tuple[OtlpReceiver, list[Call]]]:
    """A receiver in an event loop of its own, since the exporters block."""
    found: list[Call] = []
    normalise = normaliser()

    async def export(data: bytes, encoding: Any) -> ExportResult:
        found.extend(normalise.batch(decode(data, encoding), 2 * NOW_NS).calls)
        return ExportResult()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    receiver = OtlpReceiver(config.OtlpReceiver.model_validate(ON_FREE_PORTS), {"traces": export})
    asyncio.run_coroutine_threadsafe(receiver.start(), loop).result(10)
    try:
        yield receiver, found
    finally:
        asyncio.run_coroutine_threadsafe(receiver.stop(1), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def http_exporter(receiver: OtlpReceiver, compress: bool) -> SpanExporter:
    compression = Compression.Gzip if compress else Compression.NoCompression
    return HttpExporter(f"http://127.0.0.1:{receiver.http_port}/v1/traces", compression=compression)


def grpc_exporter(receiver: OtlpReceiver, compress: bool) -> SpanExporter:
    compression = grpc.Compression.Gzip if compress else grpc.Compression.NoCompression
    return GrpcExporter(f"127.0.0.1:{receiver.grpc_port}", insecure=True, compression=compression)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("make", [http_exporter, grpc_exporter])
def test_spans_of_the_sdk_arrive_as_calls(make: Any, compress: bool) -> None:
    with receiver_in_a_thread() as (receiver, found):
        provider = TracerProvider(resource=Resource({"service.name": "shop"}), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(make(receiver, compress)))
        tracer = provider.get_tracer("test")
        with tracer.start_as_current_span("chat gpt-4o") as span:
            span.set_attributes(
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.provider.name": "openai",
                    "gen_ai.request.model": "gpt-4o",
                    "gen_ai.usage.input_tokens": 1000,
                    "gen_ai.usage.output_tokens": 100,
                    "session.id": "s-1",
                    "gen_ai.response.finish_reasons": ("stop",),
                    "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"Hi"}]}]',
                }
            )
        provider.shutdown()
    (call,) = found
    assert (call.session, call.agent, call.model, call.finish_reason) == ("s-1", "shop", "gpt-4o", "stop")
    assert (call.tokens.input, call.cost_nano_usd) == (1000, 1000 * 2500 + 100 * 10_000)
    assert call.trace_id == f"{span.get_span_context().trace_id:032x}"
    assert call.input == new_input(prompt="Hi")
