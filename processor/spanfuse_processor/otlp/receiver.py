"""The OTLP receiver: HTTP and gRPC servers that hand each request to the export function of its signal."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from spanfuse_processor.otlp.access import Bearer, grpc_tls, http_tls
from spanfuse_processor.otlp.export import Exports
from spanfuse_processor.otlp.grpc_server import GrpcServer
from spanfuse_processor.otlp.http_server import HttpServer
from spanfuse_processor.otlp.room import Room

if TYPE_CHECKING:
    from spanfuse_processor import config


class OtlpReceiver:
    """Receives OTLP over HTTP and gRPC within the running event loop; signals of the process are left to the host.

    A request is answered once its export has returned, so an answer means what the export makes it mean.

    Args:
        settings: what to listen on, and who may send.
        exports: take each request; may raise DecodeError (400, INVALID_ARGUMENT: not to be retried) or UnavailableError
            (503 with Retry-After, UNAVAILABLE with RetryInfo: to be retried).

    Raises:
        ConfigError: the files of TLS cannot be used.
    """

    def __init__(self, settings: config.OtlpReceiver, exports: Exports) -> None:
        http, grpc, auth = settings.protocols.http, settings.protocols.grpc, settings.auth
        room, bearer = Room(), Bearer(auth.bearer_token if auth else None)
        self._http = http and HttpServer(*_address(http.endpoint), exports, room, bearer, http_tls(http.tls))
        self._grpc = grpc and GrpcServer(*_address(grpc.endpoint), exports, room, bearer, grpc_tls(grpc.tls))
        self.http_port = 0
        """Port of OTLP/HTTP once started; 0: not served."""
        self.grpc_port = 0
        """Port of OTLP/gRPC once started; 0: not served."""

    async def start(self) -> None:
        """Listen.

        Raises:
            SpanfuseError: an address cannot be bound, most often because another process has it; nothing is left open.
        """
        try:
            if self._http:
                self.http_port = await self._http.start()
            if self._grpc:
                self.grpc_port = await self._grpc.start()
        except BaseException:
            await self.stop(0)
            raise

    async def stop(self, grace_s: float = 5.0) -> None:
        """Take no more requests; those under way have `grace_s` seconds to finish."""
        await asyncio.gather(*(server.stop(grace_s) for server in (self._http, self._grpc) if server))


def _address(endpoint: str) -> tuple[str, int]:
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]") or "127.0.0.1", int(port)
