"""OTLP/gRPC: TraceService.Export, plain or gzip. The bytes are handed on as they came, not decoded twice."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from spanfuse_processor.errors import DecodeError, SpanfuseError, UnavailableError
from spanfuse_processor.otlp.export import EXPORT_TIMEOUT_S, MAX_REQUEST_BYTES, MAX_REQUESTS, Export
from spanfuse_processor.otlp.inflate import TooLargeError, inflate
from spanfuse_processor.serving import listen

SERVICE: Final = "opentelemetry.proto.collector.trace.v1.TraceService"

_COMPRESSED: Final = (b"\x1f\x8b", b"\x78")
"""How gzip and zlib begin; a request begins with its first field's tag, 0x0A."""

_BACKSTOP: Final = 4 * MAX_REQUESTS
"""Requests at once that gRPC itself refuses; above ours, which refuses more kindly."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
    ("grpc.so_reuseport", 0),
    # gRPC would inflate without a limit; we do it with one.
    ("grpc.per_message_decompression", 0),
)


class GrpcServer:
    """Serves OTLP/gRPC within the running event loop.

    Args:
        host: address to listen on.
        port: port to listen on; 0: a free one.
        export: where requests go.
    """

    def __init__(self, host: str, port: int, export: Export) -> None:
        self._address = host
        self._host = f"[{host}]" if ":" in host else host
        self._port = port
        self._export = export
        self._under_way = 0
        self._server: Any = None

    async def start(self) -> int:
        """Listen, and give the port.

        Raises:
            SpanfuseError: the address cannot be bound.
        """
        listen("OTLP/gRPC", self._address, self._port).close()  # says why it cannot, which gRPC keeps to its own log
        server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=_BACKSTOP)
        export = grpc.unary_unary_rpc_method_handler(
            self._handle, response_serializer=ExportTraceServiceResponse.SerializeToString
        )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Export": export}),))
        try:
            port: int = server.add_insecure_port(f"{self._host}:{self._port}")
        except RuntimeError as error:
            raise SpanfuseError(f"OTLP/gRPC cannot listen on {self._host}:{self._port}: {error}") from error
        if not port:
            raise SpanfuseError(f"OTLP/gRPC cannot listen on {self._host}:{self._port}")
        await server.start()
        self._server = server
        return port

    async def stop(self, grace_s: float) -> None:
        """Take no more requests, and give those under way `grace_s` seconds to finish."""
        if self._server is not None:
            await self._server.stop(grace_s)
            self._server = None

    async def _handle(self, request: bytes, context: Any) -> ExportTraceServiceResponse:
        self._under_way += 1
        try:
            if (
                self._under_way > MAX_REQUESTS
            ):  # not gRPC's own limit: its RESOURCE_EXHAUSTED makes clients drop the spans
                raise UnavailableError("too many requests under way")
            return await self._answer(request)
        except DecodeError as error:
            code, message = grpc.StatusCode.INVALID_ARGUMENT, str(error)
        except TooLargeError:
            code, message = grpc.StatusCode.RESOURCE_EXHAUSTED, f"larger than {MAX_REQUEST_BYTES} bytes"
        except UnavailableError as error:
            code, message = grpc.StatusCode.UNAVAILABLE, str(error)
        except TimeoutError:
            code, message = grpc.StatusCode.UNAVAILABLE, "the export took too long"
        finally:
            self._under_way -= 1
        await context.abort(code, message)
        raise AssertionError("abort raises")

    async def _answer(self, request: bytes) -> ExportTraceServiceResponse:
        data = inflate(request, MAX_REQUEST_BYTES) if request.startswith(_COMPRESSED) else request
        if not data:
            return ExportTraceServiceResponse()
        async with asyncio.timeout(EXPORT_TIMEOUT_S):
            result = await self._export(data, "protobuf")
        return result.response()
