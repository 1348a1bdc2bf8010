"""One provider: its address, and the connections to it that are kept."""

from __future__ import annotations

import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import httpx

from spanfuse_processor.proxy.headers import Headers

CONNECT_TIMEOUT_S: Final = 10.0
WRITE_TIMEOUT_S: Final = 60.0
"""How long the provider may take no more of a request, seconds."""
KEPT_CONNECTIONS: Final = 100
"""Connections kept open for later requests, for each provider."""
KEPT_S: Final = 30.0
"""How long an idle one is kept, seconds: less than servers and what stands before them usually do."""


class Answer:
    """An answer of which the body is still to come.

    Attributes:
        status: HTTP status.
        headers: as they came.
    """

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers: Headers = list(response.headers.raw)
        self._stream = response.stream

    def header(self, name: bytes) -> str:
        """The value of a header; empty if there is none."""
        return next((value.decode("latin-1") for key, value in self.headers if key.lower() == name), "")

    def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes, and as it is encoded.

        Raises:
            httpx.HTTPError: it broke off, or nothing came for too long.
        """
        assert isinstance(self._stream, httpx.AsyncByteStream)
        return self._stream.__aiter__()


class Upstream:
    """Sends requests to a provider.

    Args:
        url: of its API, as its own clients take it as `base_url`.
        version: the path that clients add to it: empty where the URL has it.
        timeout_s: how long the provider may be silent, seconds.
        connections: connections at one time.
    """

    def __init__(self, url: str, version: str, timeout_s: float, connections: int) -> None:
        base = urlsplit(url)
        self._scheme, self._host, self._port = base.scheme, base.hostname or "", base.port
        self._path = f"{base.path.rstrip('/')}{version}"
        self.host = base.netloc.rpartition("@")[2].encode()
        limits = httpx.Limits(
            max_connections=connections, max_keepalive_connections=KEPT_CONNECTIONS, keepalive_expiry=KEPT_S
        )
        self._transport = httpx.AsyncHTTPTransport(limits=limits, proxy=_proxy(base.scheme, base.hostname or ""))
        self._extensions = {
            "timeout": {
                "connect": CONNECT_TIMEOUT_S,
                "read": timeout_s,
                "write": WRITE_TIMEOUT_S,
                "pool": CONNECT_TIMEOUT_S,
            }
        }

    @asynccontextmanager
    async def ask(
        self, method: str, target: str, headers: Headers, body: bytes | AsyncIterator[bytes] | None
    ) -> AsyncIterator[Answer]:
        """Send a request, and give the answer once its headers are there. Leaving the block before its body has been read
        closes the connection, by which the provider knows that nobody waits any more.

        Args:
            method: HTTP method.
            target: path under the API, and query, percent-encoded.
            headers: of the request, all that there are to be.
            body: of the request.

        Raises:
            httpx.HTTPError: the provider cannot be reached, or does not answer.
        """
        url = httpx.URL(
            scheme=self._scheme, host=self._host, port=self._port, raw_path=f"{self._path}/{target}".encode("latin-1")
        )
        request = httpx.Request(method, url, headers=headers, content=body, extensions=self._extensions)
        response = await self._transport.handle_async_request(request)
        try:
            yield Answer(response)
        finally:
            assert isinstance(response.stream, httpx.AsyncByteStream)
            await response.stream.aclose()

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.aclose()


def _proxy(scheme: str, host: str) -> str | None:
    """The proxy through which a provider is reached, as the environment has it (`HTTPS_PROXY`, `NO_PROXY`)."""
    return None if urllib.request.proxy_bypass(host) else urllib.request.getproxies().get(scheme)
