"""Real exporters, of Python and JavaScript, against the receiver: what an agent sends arrives as calls, with its content."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from spanfuse.reading.messages import new_input
from spanfuse_processor.otlp.decode import decode, decode_logs
from spanfuse_processor.otlp.export import ExportResult, Exports
from spanfuse_processor.otlp.receiver import OtlpReceiver
from spanfuse_schemas import Call
from tests.otlp.fixtures import NOW_NS, normaliser
from tests.otlp.test_receiver import settings
from tests.services import node_packages
from tests.services.kafka_jars import MissingTool


@contextmanager
def receiver_in_a_thread() -> Iterator[tuple[OtlpReceiver, list[Call]]]:
    """A receiver in an event loop of its own, since the exporters block."""
    found: list[Call] = []
    normalise = normaliser()

    async def spans(data: bytes, encoding: Any) -> ExportResult:
        found.extend(normalise.batch(decode(data, encoding), 2 * NOW_NS).calls)
        return ExportResult()

    async def logs(data: bytes, encoding: Any) -> ExportResult:
        found.extend(normalise.logs(decode_logs(data, encoding), 2 * NOW_NS).calls)
        return ExportResult()

    exports: Exports = {"traces": spans, "logs": logs}
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    receiver = OtlpReceiver(settings(), exports)
    asyncio.run_coroutine_threadsafe(receiver.start(), loop).result(10)
    try:
        yield receiver, found
    finally:
        asyncio.run_coroutine_threadsafe(receiver.stop(1), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def http_exporters(receiver: OtlpReceiver, compress: bool) -> tuple[Any, Any]:
    compression = Compression.Gzip if compress else Compression.NoCompression
    url = f"http://127.0.0.1:{receiver.http_port}/v1"
    return (
        HttpExporter(f"{url}/traces", compression=compression),
        HttpLogExporter(f"{url}/logs", compression=compression),
    )


def grpc_exporters(receiver: OtlpReceiver, compress: bool) -> tuple[Any, Any]:
    compression = grpc.Compression.Gzip if compress else grpc.Compression.NoCompression
    address = f"127.0.0.1:{receiver.grpc_port}"
    return (
        GrpcExporter(address, insecure=True, compression=compression),
        GrpcLogExporter(address, insecure=True, compression=compression),
    )


ATTRIBUTES: dict[str, Any] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.usage.input_tokens": 1000,
    "gen_ai.usage.output_tokens": 100,
    "session.id": "s-1",
    "gen_ai.response.finish_reasons": ("stop",),
}


def is_right(call: Call, trace_id: str) -> None:
    """The call is the one that was made, with its content."""
    assert (call.session, call.model, call.finish_reason, call.trace_id) == ("s-1", "gpt-4o", "stop", trace_id)
    assert (call.tokens.input, call.cost_nano_usd) == (1000, 1000 * 2500 + 100 * 10_000)
    assert (call.content, call.input) == ("content", new_input(prompt="Hi"))


@pytest.mark.parametrize("content", ["on the span", "logged before", "logged after"])
@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("make", [http_exporters, grpc_exporters])
def test_what_the_sdk_of_python_sends_arrives_as_calls(make: Any, compress: bool, content: str) -> None:
    with receiver_in_a_thread() as (receiver, found):
        span_exporter, log_exporter = make(receiver, compress)
        tracers = TracerProvider(resource=Resource({"service.name": "shop"}), shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(span_exporter))
        loggers = LoggerProvider(shutdown_on_exit=False)
        loggers.add_log_record_processor(SimpleLogRecordProcessor(log_exporter))

        def log() -> None:
            within, logger = trace.set_span_in_context(span), loggers.get_logger("test")
            logger.emit(event_name="gen_ai.user.message", body={"content": "Hi"}, context=within)
            logger.emit(event_name="gen_ai.choice", body={"message": {"content": "Hello"}}, context=within)

        span = tracers.get_tracer("test").start_span("chat gpt-4o", kind=trace.SpanKind.CLIENT, attributes=ATTRIBUTES)
        if content == "on the span":
            span.set_attribute("gen_ai.input.messages", '[{"role":"user","parts":[{"type":"text","content":"Hi"}]}]')
        elif content == "logged before":
            log()
        span.end()
        if content == "logged after":
            log()
        tracers.shutdown()
        loggers.shutdown()
    is_right(found[-1], f"{span.get_span_context().trace_id:032x}")
    assert found[-1].agent == "shop"
    assert len(found) == (2 if content == "logged after" else 1)


@pytest.fixture(scope="session")
def modules() -> str:
    """Where the exporters of JavaScript are."""
    try:
        return str(node_packages.modules())
    except MissingTool as missing:
        pytest.skip(str(missing))


@pytest.mark.integration
@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("kind", ["http", "proto", "grpc"])
def test_what_the_sdk_of_javascript_sends_arrives_as_calls(modules: str, kind: str, compression: str) -> None:
    """In JSON, protobuf and over gRPC; its content comes as log records."""
    with receiver_in_a_thread() as (receiver, found):
        url = f"http://127.0.0.1:{receiver.grpc_port if kind == 'grpc' else receiver.http_port}"
        command = [node_packages.node(), str(node_packages.EXPORT), kind, url, compression]
        environment = {**os.environ, "NODE_PATH": modules}
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert len({call.span_id for call in found}) == 1
    is_right(found[-1], done.stdout)  # it may have sent the span before the last of its log records
