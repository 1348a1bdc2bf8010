"""OTLP/HTTP: POST /v1/traces, protobuf or JSON, plain or gzip, answered in the type of the request."""

from __future__ import annotations

import asyncio
from typing import Final

from google.protobuf import json_format
from google.rpc import code_pb2, status_pb2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from spanfuse_processor import serving
from spanfuse_processor.errors import DecodeError, UnavailableError
from spanfuse_processor.otlp.decode import Encoding
from spanfuse_processor.otlp.export import EXPORT_TIMEOUT_S, MAX_REQUEST_BYTES, MAX_REQUESTS, Export
from spanfuse_processor.otlp.inflate import Inflater, TooLargeError

PATH: Final = "/v1/traces"
BODY_TIMEOUT_S: Final = 30.0
"""How long a client may take to send its request, seconds."""
RETRY_AFTER_S: Final = 1

_TYPES: Final[dict[str, Encoding]] = {
    "application/x-protobuf": "protobuf",
    "application/protobuf": "protobuf",
    "application/json": "json",
}


class _Refused(Exception):
    """The request is refused; the client is told so with a status."""

    def __init__(self, http: int, code: int, message: str) -> None:
        super().__init__(message)
        self.http = http
        self.code = code


class HttpServer:
    """Serves OTLP/HTTP within the running event loop.

    Args:
        host: address to listen on.
        port: port to listen on; 0: a free one.
        export: where requests go.
    """

    def __init__(self, host: str, port: int, export: Export) -> None:
        self._export = export
        self._under_way = 0
        app = Starlette(routes=[Route(PATH, self._traces, methods=["POST"])])
        self._server = serving.HttpServer("OTLP/HTTP", app, host, port)

    async def start(self) -> int:
        """Listen, and give the port.

        Raises:
            SpanfuseError: the address cannot be bound.
        """
        return await self._server.start()

    async def stop(self, grace_s: float) -> None:
        """Take no more requests, and give those under way `grace_s` seconds to finish."""
        await self._server.stop(grace_s)

    async def _traces(self, request: Request) -> Response:
        encoding = _TYPES.get(request.headers.get("content-type", "").partition(";")[0].strip().lower())
        if encoding is None:
            return _refusal("protobuf", _Refused(415, code_pb2.INVALID_ARGUMENT, "content type is not OTLP"))
        if self._under_way >= MAX_REQUESTS:
            return _refusal(encoding, _Refused(503, code_pb2.UNAVAILABLE, "too many requests under way"))
        self._under_way += 1
        try:
            return await self._answer(request, encoding)
        except _Refused as refused:
            return _refusal(encoding, refused)
        finally:
            self._under_way -= 1

    async def _answer(self, request: Request, encoding: Encoding) -> Response:
        try:
            data = await _body(request)
            if not data:
                return _reply(ExportTraceServiceResponse(), encoding)
            async with asyncio.timeout(EXPORT_TIMEOUT_S):
                result = await self._export(data, encoding)
            return _reply(result.response(), encoding)
        except DecodeError as error:
            raise _Refused(400, code_pb2.INVALID_ARGUMENT, str(error)) from error
        except UnavailableError as error:
            raise _Refused(503, code_pb2.UNAVAILABLE, str(error)) from error
        except TimeoutError as error:
            raise _Refused(503, code_pb2.UNAVAILABLE, "the export took too long") from error


async def _body(request: Request) -> bytes:
    """The body, decompressed, never more of it in memory than the limit allows."""
    compression = request.headers.get("content-encoding", "identity").strip().lower()
    if compression not in ("identity", "gzip", "deflate", ""):
        raise _Refused(415, code_pb2.INVALID_ARGUMENT, f"content encoding {compression[:32]!r} is not gzip")
    too_large = _Refused(413, code_pb2.INVALID_ARGUMENT, f"larger than {MAX_REQUEST_BYTES} bytes")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > MAX_REQUEST_BYTES:
        raise too_large
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await (_plain(request) if compression in ("identity", "") else _inflated(request))
    except TooLargeError:
        raise too_large from None
    except TimeoutError:
        raise _Refused(408, code_pb2.DEADLINE_EXCEEDED, "the request took too long to arrive") from None
    except ClientDisconnect:
        raise _Refused(400, code_pb2.CANCELLED, "the client went away") from None


async def _plain(request: Request) -> bytes:
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > MAX_REQUEST_BYTES:
            raise TooLargeError
    return bytes(data)


async def _inflated(request: Request) -> bytes:
    inflater = Inflater(MAX_REQUEST_BYTES)
    received = 0
    async for piece in request.stream():
        received += len(piece)
        inflater.feed(piece)
    return inflater.finish() if received else b""


def _reply(message: ExportTraceServiceResponse, encoding: Encoding) -> Response:
    if encoding == "protobuf":
        return Response(message.SerializeToString(), media_type="application/x-protobuf")
    return Response(json_format.MessageToJson(message, indent=None), media_type="application/json")


def _refusal(encoding: Encoding, refused: _Refused) -> Response:
    """A google.rpc.Status in the type of the request."""
    status = status_pb2.Status(code=refused.code, message=str(refused))
    headers = {"Retry-After": str(RETRY_AFTER_S)} if refused.http == 503 else None
    if encoding == "protobuf":
        return Response(status.SerializeToString(), refused.http, headers, "application/x-protobuf")
    return Response(json_format.MessageToJson(status, indent=None), refused.http, headers, "application/json")
