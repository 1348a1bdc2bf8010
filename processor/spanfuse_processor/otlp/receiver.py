"""The OTLP receiver: HTTP and gRPC servers that hand each request to one export function."""

from __future__ import annotations

import asyncio

from spanfuse_processor.errors import SpanfuseError
from spanfuse_processor.otlp.export import Export, ExportResult
from spanfuse_processor.otlp.grpc_server import GrpcServer
from spanfuse_processor.otlp.http_server import HttpServer

__all__ = ["Export", "ExportResult", "OtlpReceiver"]


class OtlpReceiver:
    """Receives OTLP traces over HTTP and gRPC within the running event loop; signals are left to the host.

    A request is answered once `export` has returned, so an answer means what `export` makes it mean.

    Args:
        http_endpoint: `host:port` to serve OTLP/HTTP on, port 0: a free one; `None`: do not.
        grpc_endpoint: the same for OTLP/gRPC.
        export: takes each request; may raise DecodeError (400, INVALID_ARGUMENT: not to be retried) or UnavailableError
            (503 with Retry-After, UNAVAILABLE: to be retried).
    """

    def __init__(self, http_endpoint: str | None, grpc_endpoint: str | None, export: Export) -> None:
        self._http = HttpServer(*_address(http_endpoint), export) if http_endpoint else None
        self._grpc = GrpcServer(*_address(grpc_endpoint), export) if grpc_endpoint else None
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
    host, colon, port = endpoint.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise SpanfuseError(f"{endpoint!r} is not host:port")
    return host.strip("[]") or "127.0.0.1", int(port)
