"""OTLP/HTTP: POST /v1/traces, /v1/logs, /v1/metrics; protobuf or JSON, plain or gzip, answered in the type of the request."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

from google.protobuf import json_format
from google.rpc import code_pb2, status_pb2
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from spanfuse_processor import serving
from spanfuse_processor.errors import DecodeError, UnavailableError
from spanfuse_processor.otlp.access import Bearer
from spanfuse_processor.otlp.decode import Encoding
from spanfuse_processor.otlp.export import (
    BODY_TIMEOUT_S,
    EXPORT_TIMEOUT_S,
    MAX_REQUEST_BYTES,
    MAX_REQUESTS,
    RETRY_AFTER_S,
    SIGNALS,
    Exports,
    SignalName,
)
from spanfuse_processor.otlp.inflate import Inflater, TooLargeError
from spanfuse_processor.otlp.room import Room, Share

_TYPES: Final[dict[str, Encoding]] = {
    "application/x-protobuf": "protobuf",
    "application/protobuf": "protobuf",
    "application/json": "json",
}
_COMING_BACK_HELPS: Final = (429, 503)


class _Refused(Exception):
    """The request is refused; the client is told so with a status."""

    def __init__(self, http: int, code: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.http = http
        self.code = code
        self.headers = dict(headers or {})


class HttpServer:
    """Serves OTLP/HTTP within the running event loop.

    Args:
        host: address to listen on.
        port: port to listen on; 0: a free one.
        exports: where requests go.
        room: what they may take.
        bearer: who may send.
        tls: options of TLS, see `access.http_tls`.
    """

    def __init__(
        self, host: str, port: int, exports: Exports, room: Room, bearer: Bearer, tls: dict[str, Any] | None = None
    ) -> None:
        self._exports = exports
        self._room = room
        self._bearer = bearer
        self._under_way = 0
        app = Starlette(
            routes=[Route(SIGNALS[name].path, partial(self._handle, name), methods=["POST"]) for name in exports],
            exception_handlers={HTTPException: _not_served, Exception: _failed},
        )
        self._server = serving.HttpServer("OTLP/HTTP", app, host, port, tls)

    async def start(self) -> int:
        """Listen, and give the port.

        Raises:
            SpanfuseError: the address cannot be bound.
        """
        return await self._server.start()

    async def stop(self, grace_s: float) -> None:
        """Take no more requests, and give those under way `grace_s` seconds to finish."""
        await self._server.stop(grace_s)

    async def _handle(self, name: SignalName, request: Request) -> Response:
        self._under_way += 1
        try:
            if not self._bearer.admits(request.headers.get("authorization")):
                raise _Refused(401, code_pb2.UNAUTHENTICATED, "the token is missing or wrong", _CHALLENGE)
            if self._under_way > MAX_REQUESTS:
                raise UnavailableError("too many requests under way")
            with self._room.share() as share:
                return await self._answer(name, request, share)
        except _Refused as refused:
            return _refusal(request, refused)
        except DecodeError as error:
            return _refusal(request, _Refused(400, code_pb2.INVALID_ARGUMENT, str(error)))
        except UnavailableError as error:
            return _refusal(request, _Refused(503, code_pb2.UNAVAILABLE, str(error)))
        finally:
            self._under_way -= 1

    async def _answer(self, name: SignalName, request: Request, share: Share) -> Response:
        encoding = _encoding(request)
        if encoding is None:
            raise _Refused(415, code_pb2.INVALID_ARGUMENT, "content type is neither protobuf nor JSON")
        data = await _body(request, share)
        if not data:
            return _reply(200, SIGNALS[name].response(), encoding)
        try:
            async with asyncio.timeout(EXPORT_TIMEOUT_S):
                result = await self._exports[name](data, encoding)
        except TimeoutError as error:
            raise UnavailableError("the export took too long") from error
        return _reply(200, result.response(SIGNALS[name]), encoding)


_CHALLENGE: Final = {"WWW-Authenticate": "Bearer"}


def _encoding(request: Request) -> Encoding | None:
    return _TYPES.get(request.headers.get("content-type", "").partition(";")[0].strip().lower())


async def _body(request: Request, share: Share) -> bytes:
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
            return await (_plain if compression in ("identity", "") else _inflated)(request, share)
    except TooLargeError:
        raise too_large from None
    except TimeoutError:
        raise _Refused(408, code_pb2.DEADLINE_EXCEEDED, "the request took too long to arrive") from None
    except ClientDisconnect:
        raise _Refused(400, code_pb2.CANCELLED, "the client went away") from None


async def _plain(request: Request, share: Share) -> bytes:
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > MAX_REQUEST_BYTES:
            raise TooLargeError
        share.take(len(data))
    return bytes(data)


async def _inflated(request: Request, share: Share) -> bytes:
    inflater = Inflater(MAX_REQUEST_BYTES)
    received = 0
    async for piece in request.stream():
        received += len(piece)
        inflater.feed(piece)
        share.take(len(inflater))
    return inflater.finish() if received else b""


def _reply(http: int, message: Any, encoding: Encoding | None, headers: dict[str, str] | None = None) -> Response:
    if encoding == "json":
        return Response(json_format.MessageToJson(message, indent=None), http, headers, "application/json")
    return Response(message.SerializeToString(), http, headers, "application/x-protobuf")


def _refusal(request: Request, refused: _Refused) -> Response:
    """A google.rpc.Status in the type of the request."""
    if refused.http in _COMING_BACK_HELPS:
        refused.headers["Retry-After"] = str(RETRY_AFTER_S)
    status = status_pb2.Status(code=refused.code, message=str(refused))
    return _reply(refused.http, status, _encoding(request), refused.headers)


async def _not_served(request: Request, error: Exception) -> Response:
    """No such path, or no such method."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    return _refusal(request, _Refused(error.status_code, code_pb2.UNIMPLEMENTED, error.detail, headers))


async def _failed(request: Request, _: Exception) -> Response:
    return _refusal(request, _Refused(500, code_pb2.INTERNAL, "internal error"))
