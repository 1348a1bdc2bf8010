"""The receiver on the wire: what clients are told, in which form, and that nothing takes it down."""

from __future__ import annotations

import asyncio
import gzip
import signal
import socket
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import httpx
import pytest
from google.rpc import status_pb2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from spanfuse_processor import config
from spanfuse_processor.errors import DecodeError, SpanfuseError, UnavailableError
from spanfuse_processor.otlp import grpc_server, http_server
from spanfuse_processor.otlp.decode import decode, decode_logs
from spanfuse_processor.otlp.export import MAX_REQUEST_BYTES, ExportResult, Exports
from spanfuse_processor.otlp.receiver import OtlpReceiver
from spanfuse_processor.otlp.span import LogRecord
from tests.otlp.fixtures import chat, json_bytes, protobuf_bytes

PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json; charset=utf-8"}


class Sink:
    """Takes requests as an export function does, and behaves as it is told."""

    def __init__(self) -> None:
        self.requests: list[tuple[bytes, str]] = []
        self.logged: list[LogRecord] = []
        self.result = ExportResult()
        self.error: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.entered = asyncio.Event()
        self.meet = False
        self.both = asyncio.Barrier(3)
        """Where the exports of both protocols and the test meet, if `meet` is set."""

    async def __call__(self, data: bytes, encoding: Any) -> ExportResult:
        self.entered.set()
        if self.gate and self.meet:
            await self.both.wait()
        if self.gate:
            await self.gate.wait()
        if self.error:
            raise self.error
        decode(data, encoding)
        self.requests.append((data, encoding))
        return self.result

    async def logs(self, data: bytes, encoding: Any) -> ExportResult:
        self.logged += decode_logs(data, encoding)
        return self.result


def settings(http: str | None = "127.0.0.1:0", grpc: str | None = "127.0.0.1:0", **more: Any) -> config.OtlpReceiver:
    """What to listen on; `more` are options of both protocols, and `auth`."""
    auth = {"auth": more.pop("auth")} if "auth" in more else {}
    protocols = {name: {"endpoint": at, **more} for name, at in (("http", http), ("grpc", grpc)) if at}
    return config.OtlpReceiver.model_validate({"protocols": protocols, **auth})


def exports(sink: Sink) -> Exports:
    async def drop(_: bytes, __: Any) -> ExportResult:
        return ExportResult()

    return {"traces": sink, "logs": sink.logs, "metrics": drop}


Scenario = Callable[[OtlpReceiver, Sink, httpx.AsyncClient], Awaitable[None]]


def serve(scenario: Scenario, **more: Any) -> None:
    """Run a scenario against a receiver on free ports; `more` are arguments of `settings`."""

    async def main() -> None:
        sink = Sink()
        receiver = OtlpReceiver(settings(**more), exports(sink))
        await receiver.start()
        try:
            base = f"http://127.0.0.1:{receiver.http_port}"
            async with httpx.AsyncClient(base_url=base, timeout=20) as client:
                await scenario(receiver, sink, client)
        finally:
            await receiver.stop(1)

    asyncio.run(main())


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize(("headers", "data"), [(PROTOBUF, protobuf_bytes(chat())), (JSON, json_bytes(chat()))])
def test_a_request_is_handed_on_decompressed_and_answered_in_its_type(
    headers: dict[str, str], data: bytes, compress: bool
) -> None:
    async def scenario(_: OtlpReceiver, sink: Sink, client: httpx.AsyncClient) -> None:
        extra = {"content-encoding": "gzip"} if compress else {}
        body = gzip.compress(data) if compress else data
        answer = await client.post("/v1/traces", content=body, headers=headers | extra)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == headers["content-type"].partition(";")[0]
        assert sink.requests == [(data, "json" if headers is JSON else "protobuf")]

    serve(scenario)


@pytest.mark.parametrize("headers", [PROTOBUF, JSON])
def test_an_empty_request_is_a_success(headers: dict[str, str]) -> None:
    async def scenario(_: OtlpReceiver, __: Sink, client: httpx.AsyncClient) -> None:
        assert (await client.post("/v1/traces", content=b"", headers=headers)).status_code == 200

    serve(scenario)


def test_spans_that_were_rejected_are_told_as_a_partial_success() -> None:
    async def scenario(receiver: OtlpReceiver, sink: Sink, client: httpx.AsyncClient) -> None:
        sink.result = ExportResult(2, "without ids")
        answer = await client.post("/v1/traces", content=protobuf_bytes(chat()), headers=PROTOBUF)
        partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
        assert (partial.rejected_spans, partial.error_message) == (2, "without ids")
        answer = await client.post("/v1/traces", content=json_bytes(chat()), headers=JSON)
        assert answer.json() == {"partialSuccess": {"rejectedSpans": "2", "errorMessage": "without ids"}}
        reply = await _grpc(receiver, chat_request())
        assert reply.partial_success.rejected_spans == 2

    serve(scenario)


BOMB = gzip.compress(bytes(MAX_REQUEST_BYTES + 1))


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status"),
    [
        pytest.param("POST", "/v1/traces", PROTOBUF, b"garbage", 400, id="garbage"),
        pytest.param("POST", "/v1/traces", JSON, b"{", 400, id="no JSON"),
        pytest.param("POST", "/v1/traces", JSON, b'{"resourceLogs":[]}', 400, id="logs"),
        pytest.param("POST", "/v1/traces", PROTOBUF | {"content-encoding": "gzip"}, b"no gzip", 400, id="no gzip"),
        pytest.param("POST", "/v1/traces", PROTOBUF | {"content-encoding": "gzip"}, BOMB[:500], 400, id="cut gzip"),
        pytest.param("POST", "/v1/traces", PROTOBUF | {"content-encoding": "gzip"}, BOMB, 413, id="bomb"),
        pytest.param("POST", "/v1/traces", PROTOBUF, bytes(MAX_REQUEST_BYTES + 1), 413, id="too large"),
        pytest.param("POST", "/v1/traces", {"content-type": "text/plain"}, b"x", 415, id="text"),
        pytest.param("POST", "/v1/traces", {}, b"x", 415, id="no type"),
        pytest.param("POST", "/v1/traces", PROTOBUF | {"content-encoding": "br"}, b"x", 415, id="brotli"),
        pytest.param("GET", "/v1/traces", {}, b"", 405, id="GET"),
        pytest.param("POST", "/v1/profiles", PROTOBUF, b"", 404, id="other signal"),
    ],
)
def test_what_is_refused_is_told_why_and_the_next_is_served(
    method: str, path: str, headers: dict[str, str], body: bytes, status: int
) -> None:
    async def scenario(_: OtlpReceiver, sink: Sink, client: httpx.AsyncClient) -> None:
        answer = await client.request(method, path, content=body, headers=headers)
        assert answer.status_code == status
        assert answer.headers["content-type"] == ("application/json" if headers is JSON else "application/x-protobuf")
        assert answer.headers.get("allow") == ("POST" if status == 405 else None)
        if headers is not JSON:
            assert status_pb2.Status.FromString(answer.content).message
        else:
            assert answer.json()["message"]
        good = await client.post("/v1/traces", content=json_bytes(chat()), headers=JSON)
        assert good.status_code == 200
        assert len(sink.requests) == 1

    serve(scenario)


def test_a_body_of_unknown_length_is_refused_as_soon_as_it_is_too_long() -> None:
    async def scenario(_: OtlpReceiver, __: Sink, client: httpx.AsyncClient) -> None:
        async def endless() -> Any:
            for _ in range(MAX_REQUEST_BYTES // 2**20 + 2):
                yield bytes(2**20)

        answer = await client.post("/v1/traces", content=endless(), headers=PROTOBUF)
        assert answer.status_code == 413

    serve(scenario)


def test_a_client_that_never_sends_its_body_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "BODY_TIMEOUT_S", 0.2)

    async def scenario(receiver: OtlpReceiver, _: Sink, __: httpx.AsyncClient) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", receiver.http_port)
        head = "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n"
        writer.write(head.encode())
        assert b" 408 " in await asyncio.wait_for(reader.readline(), 5)
        writer.close()

    serve(scenario)


def test_unavailable_asks_the_client_to_come_back() -> None:
    async def scenario(receiver: OtlpReceiver, sink: Sink, client: httpx.AsyncClient) -> None:
        sink.error = UnavailableError("no broker")
        answer = await client.post("/v1/traces", content=json_bytes(chat()), headers=JSON)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json() == {"code": 14, "message": "no broker"}
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await _grpc(receiver, chat_request())
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE

    serve(scenario)


def test_an_error_nobody_foresaw_is_a_500_and_the_next_is_served() -> None:
    async def scenario(receiver: OtlpReceiver, sink: Sink, client: httpx.AsyncClient) -> None:
        sink.error = ZeroDivisionError()
        assert (await client.post("/v1/traces", content=json_bytes(chat()), headers=JSON)).status_code == 500
        with pytest.raises(grpc.aio.AioRpcError):
            await _grpc(receiver, chat_request())
        sink.error = None
        assert (await client.post("/v1/traces", content=json_bytes(chat()), headers=JSON)).status_code == 200
        await _grpc(receiver, chat_request())

    serve(scenario)


def chat_request() -> ExportTraceServiceRequest:
    return ExportTraceServiceRequest.FromString(protobuf_bytes(chat()))


async def _grpc(
    receiver: OtlpReceiver, request: Any, *, service: str = "trace.v1.TraceService", tls: Any = None, **options: Any
) -> Any:
    address, limits = f"127.0.0.1:{receiver.grpc_port}", [("grpc.max_send_message_length", -1)]
    made = grpc.aio.secure_channel(address, tls, limits) if tls else grpc.aio.insecure_channel(address, options=limits)
    async with made as channel:
        if isinstance(request, bytes):
            export = channel.unary_unary(f"/opentelemetry.proto.collector.{service}/Export")
            return await export(request, timeout=20, **options)
        stub: Any = TraceServiceStub(channel)  # type: ignore[no-untyped-call]
        return await stub.Export(request, timeout=20, **options)


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_grpc_takes_requests_plain_and_compressed(compression: Any) -> None:
    async def scenario(receiver: OtlpReceiver, sink: Sink, _: httpx.AsyncClient) -> None:
        request = ExportTraceServiceRequest.FromString(protobuf_bytes(chat(output="x" * 10_000)))
        await _grpc(receiver, request, compression=compression)
        assert [(ExportTraceServiceRequest.FromString(d), e) for d, e in sink.requests] == [(request, "protobuf")]

    serve(scenario)


@pytest.mark.parametrize(
    ("data", "options", "code"),
    [
        pytest.param(b"garbage", {}, grpc.StatusCode.INVALID_ARGUMENT, id="garbage"),
        pytest.param(bytes(MAX_REQUEST_BYTES + 1), {}, grpc.StatusCode.RESOURCE_EXHAUSTED, id="too large"),
        pytest.param(
            bytes(MAX_REQUEST_BYTES + 1),
            {"compression": grpc.Compression.Gzip},
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            id="bomb",
        ),
        pytest.param(zlib.compress(b"x" * 99)[:20], {}, grpc.StatusCode.INVALID_ARGUMENT, id="cut"),
    ],
)
def test_grpc_refuses_with_the_code_that_says_why(data: bytes, options: dict[str, Any], code: grpc.StatusCode) -> None:
    async def scenario(receiver: OtlpReceiver, _: Sink, __: httpx.AsyncClient) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await _grpc(receiver, data, **options)
        assert caught.value.code() is code
        if options:
            assert caught.value.details() == f"larger than {MAX_REQUEST_BYTES} bytes"
        await _grpc(receiver, chat_request())

    serve(scenario)


def test_grpc_takes_an_empty_request() -> None:
    async def scenario(receiver: OtlpReceiver, _: Sink, __: httpx.AsyncClient) -> None:
        assert await _grpc(receiver, ExportTraceServiceRequest()) == ExportTraceServiceResponse()

    serve(scenario)


def test_stopping_lets_requests_under_way_finish() -> None:
    async def scenario(receiver: OtlpReceiver, sink: Sink, client: httpx.AsyncClient) -> None:
        sink.gate, sink.meet = asyncio.Event(), True
        by_http = asyncio.create_task(client.post("/v1/traces", content=json_bytes(chat()), headers=JSON))
        by_grpc = asyncio.create_task(_grpc(receiver, chat_request()))
        await asyncio.wait_for(sink.both.wait(), 5)
        stopping = asyncio.create_task(receiver.stop(5))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(stopping), 0.2)
        sink.gate.set()
        await asyncio.wait_for(stopping, 5)
        assert (await by_http).status_code == 200
        assert await by_grpc == ExportTraceServiceResponse()
        assert len(sink.requests) == 2
        with pytest.raises(httpx.ConnectError):
            await client.post("/v1/traces", content=b"", headers=JSON)

    serve(scenario)


def test_stopping_does_not_wait_for_ever() -> None:
    async def scenario(receiver: OtlpReceiver, sink: Sink, client: httpx.AsyncClient) -> None:
        sink.gate = asyncio.Event()
        pending = asyncio.create_task(client.post("/v1/traces", content=json_bytes(chat()), headers=JSON))
        await asyncio.wait_for(sink.entered.wait(), 5)
        await asyncio.wait_for(receiver.stop(0.5), 5)
        (outcome,) = await asyncio.gather(pending, return_exceptions=True)
        assert isinstance(outcome, Exception) or (isinstance(outcome, httpx.Response) and outcome.status_code >= 500)

    serve(scenario)


def test_signal_handlers_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

    async def scenario(_: OtlpReceiver, __: Sink, ___: httpx.AsyncClient) -> None:
        assert signal.getsignal(signal.SIGTERM) == before[0]

    serve(scenario)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_port_in_use_is_one_clear_error_and_leaves_nothing_open(protocol: str) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            receiver = OtlpReceiver(settings(**{protocol: f"127.0.0.1:{port}"}), exports(Sink()))
            with pytest.raises(SpanfuseError, match=str(port)):
                await receiver.start()
            if receiver.http_port:
                with pytest.raises(ConnectionRefusedError):
                    await asyncio.open_connection("127.0.0.1", receiver.http_port)

    asyncio.run(main())


def test_one_protocol_alone_can_be_served() -> None:
    async def main() -> None:
        receiver = OtlpReceiver(settings(http=None, grpc="localhost:0"), exports(Sink()))
        await receiver.start()
        assert (receiver.http_port, receiver.grpc_port > 0) == (0, True)
        await receiver.stop(1)
        await receiver.stop(1)

    asyncio.run(main())


def test_more_requests_than_allowed_are_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MAX_REQUESTS", 1)
    monkeypatch.setattr(grpc_server, "MAX_REQUESTS", 0)

    async def scenario(receiver: OtlpReceiver, sink: Sink, client: httpx.AsyncClient) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await _grpc(receiver, chat_request())
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        sink.gate = asyncio.Event()
        first = asyncio.create_task(client.post("/v1/traces", content=json_bytes(chat()), headers=JSON))
        await asyncio.wait_for(sink.entered.wait(), 5)
        assert (await client.post("/v1/traces", content=json_bytes(chat()), headers=JSON)).status_code == 503
        sink.gate.set()
        assert (await first).status_code == 200

    serve(scenario)


def test_an_export_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "EXPORT_TIMEOUT_S", 0.1)
    monkeypatch.setattr(grpc_server, "EXPORT_TIMEOUT_S", 0.1)

    async def scenario(receiver: OtlpReceiver, sink: Sink, client: httpx.AsyncClient) -> None:
        sink.gate = asyncio.Event()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await _grpc(receiver, chat_request())
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert (await client.post("/v1/traces", content=json_bytes(chat()), headers=JSON)).status_code == 503

    serve(scenario)


def test_an_export_may_refuse_as_undecodable() -> None:
    async def scenario(_: OtlpReceiver, sink: Sink, client: httpx.AsyncClient) -> None:
        sink.error = DecodeError("nonsense")
        answer = await client.post("/v1/traces", content=json_bytes(chat()), headers=JSON)
        assert (answer.status_code, answer.json()) == (400, {"code": 3, "message": "nonsense"})

    serve(scenario)
