"""OTLP/gRPC: the Export of each signal, plain or gzip. The bytes are handed on as they came, not decoded twice.

Requests are read as streams of one message, which on the wire is the same: so a client without the token, and one for whose
request there is no room, is told so before its request is in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from spanfuse_processor.errors import DecodeError, SpanfuseError, UnavailableError
from spanfuse_processor.otlp.access import Bearer
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
from spanfuse_processor.otlp.inflate import TooLargeError, inflate
from spanfuse_processor.otlp.quiet import grpc
from spanfuse_processor.otlp.room import Room, Share
from spanfuse_processor.serving import listen

MAX_READS: Final = 8
"""Requests that are received at once; others wait. How large one is, is known only when it is here, so each takes the room of
the largest until then."""

_COMPRESSED: Final = (b"\x1f\x8b", b"\x78")
"""How gzip and zlib begin; a request begins with its first field's tag, 0x0A."""

_BACKSTOP: Final = 4 * MAX_REQUESTS
"""Requests at once that gRPC itself refuses; above ours, which refuses more kindly."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
    ("grpc.so_reuseport", 0),
    # Of a request that waits, a few hundred spans are fetched; the rest stays with the client. gRPC's own measure is 4 MB.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 512 * 1024),
    # gRPC would inflate without a limit; we do it with one.
    ("grpc.per_message_decompression", 0),
)


class GrpcServer:
    """Serves OTLP/gRPC within the running event loop.

    Args:
        host: address to listen on.
        port: port to listen on; 0: a free one.
        exports: where requests go.
        room: what they may take.
        bearer: who may send.
        credentials: TLS, see `access.grpc_tls`; none: without.
    """

    def __init__(
        self, host: str, port: int, exports: Exports, room: Room, bearer: Bearer, credentials: Any = None
    ) -> None:
        self._address = host
        self._host = f"[{host}]" if ":" in host else host
        self._port = port
        self._exports = exports
        self._room = room
        self._bearer = bearer
        self._credentials = credentials
        self._reading = asyncio.Semaphore(MAX_READS)
        self._under_way = 0
        self._server: Any = None

    async def start(self) -> int:
        """Listen, and give the port.

        Raises:
            SpanfuseError: the address cannot be bound.
        """
        listen("OTLP/gRPC", self._address, self._port).close()  # says why it cannot, which gRPC keeps to its own log
        server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=_BACKSTOP)
        server.add_generic_rpc_handlers(tuple(self._service(name) for name in self._exports))
        address = f"{self._host}:{self._port}"
        try:
            if self._credentials is None:
                port: int = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, self._credentials)
        except RuntimeError as error:
            raise SpanfuseError(f"OTLP/gRPC cannot listen on {address}: {error}") from error
        if not port:
            raise SpanfuseError(f"OTLP/gRPC cannot listen on {address}")
        await server.start()
        self._server = server
        return port

    def _service(self, name: SignalName) -> Any:
        export = grpc.stream_unary_rpc_method_handler(
            partial(self._handle, name), response_serializer=SIGNALS[name].response.SerializeToString
        )
        return grpc.method_handlers_generic_handler(SIGNALS[name].service, {"Export": export})

    async def stop(self, grace_s: float) -> None:
        """Take no more requests, and give those under way `grace_s` seconds to finish."""
        if self._server is not None:
            await self._server.stop(grace_s)
            self._server = None

    async def _handle(self, name: SignalName, requests: AsyncIterator[bytes], context: Any) -> Any:
        self._under_way += 1
        try:
            if not self._bearer.admits(dict(context.invocation_metadata() or ()).get("authorization")):
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is missing or wrong")
            if self._under_way > MAX_REQUESTS:
                raise UnavailableError("too many requests under way")
            return await self._answer(name, requests)
        except DecodeError as error:
            code, message = grpc.StatusCode.INVALID_ARGUMENT, str(error)
        except TooLargeError:
            code, message = grpc.StatusCode.RESOURCE_EXHAUSTED, f"larger than {MAX_REQUEST_BYTES} bytes"
        except UnavailableError as error:
            # Never RESOURCE_EXHAUSTED: clients drop their spans at it.
            code, message = grpc.StatusCode.UNAVAILABLE, str(error)
        finally:
            self._under_way -= 1
        await context.abort(code, message, _details(code, message))
        raise AssertionError("abort raises")

    async def _answer(self, name: SignalName, requests: AsyncIterator[bytes]) -> Any:
        with self._room.share() as share:
            request = await self._received(requests, share)
            if request.startswith(_COMPRESSED):
                request = inflate(request, MAX_REQUEST_BYTES)
                share.take(len(request))
            if not request:
                return SIGNALS[name].response()
            try:
                async with asyncio.timeout(EXPORT_TIMEOUT_S):
                    result = await self._exports[name](request, "protobuf")
            except TimeoutError as error:
                raise UnavailableError("the export took too long") from error
            return result.response(SIGNALS[name])

    async def _received(self, requests: AsyncIterator[bytes], share: Share) -> bytes:
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S), self._reading:
                share.take(MAX_REQUEST_BYTES)
                async for request in requests:
                    share.take(len(request))
                    return request
        except TimeoutError as error:
            raise UnavailableError("the request took too long to arrive") from error
        raise DecodeError("a call without a request")


def _details(code: Any, message: str) -> tuple[tuple[str, bytes], ...]:
    """What a client that shall come back is told besides: when."""
    if code is not grpc.StatusCode.UNAVAILABLE:
        return ()
    status = status_pb2.Status(code=code.value[0], message=message)
    status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=Duration(seconds=RETRY_AFTER_S)))
    return (("grpc-status-details-bin", status.SerializeToString()),)
