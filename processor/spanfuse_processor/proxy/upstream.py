"""One provider: its address, and the connections to it that are kept."""

from __future__ import annotations

import ssl
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import httpx
from multidict import CIMultiDict
from yarl import URL

from spanfuse_processor.proxy.headers import Headers, as_text

CONNECT_TIMEOUT_S: Final = 10.0
KEPT_S: Final = 30.0
"""How long an idle connection is kept, seconds: less than servers and what stands before them usually do."""
MAX_HEADER_BYTES: Final = 64 * 1024
"""The largest header of an answer, bytes."""

_OURS_ALONE: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""What the client would add where a request has none."""


class Answer:
    """An answer of which the body is still to come.

    Attributes:
        status: HTTP status.
        headers: as they came.
    """

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.headers: Headers = list(response.raw_headers)
        self._content = response.content

    def header(self, name: bytes) -> str:
        """The value of a header; empty if there is none."""
        return next((value.decode("latin-1") for key, value in self.headers if key.lower() == name), "")

    def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes, and as it is encoded; no more of it is read ahead than some 128 KiB.

        Raises:
            aiohttp.ClientError: it broke off, or nothing came for too long.
        """
        return self._content.iter_any()


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
        self.host = base.netloc.rpartition("@")[2].encode()
        self._base = f"{base.scheme}://{base.netloc}{base.path.rstrip('/')}{version}/"
        self._proxy = _proxy(base.scheme, base.hostname or "")
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=timeout_s)
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Be ready for requests of the running event loop."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections, keepalive_timeout=KEPT_S, ssl=self._tls()),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_OURS_ALONE,
            auto_decompress=False,
            timeout=self._timeout,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )

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
            aiohttp.ClientError: the provider cannot be reached, or does not answer.
        """
        assert self._session is not None
        response = await self._session.request(
            method,
            URL(self._base + target, encoded=True),
            headers=CIMultiDict((name.decode("latin-1"), as_text(value)) for name, value in headers),
            data=body,
            proxy=self._proxy,
            allow_redirects=False,
        )
        try:
            yield Answer(response)
        finally:
            response.release()

    def _tls(self) -> ssl.SSLContext | bool:
        """The authorities that are trusted: certifi's, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`."""
        return httpx.create_ssl_context() if self._base.startswith("https:") else True

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()


def _proxy(scheme: str, host: str) -> str | None:
    """The proxy through which a provider is reached, as the environment has it (`HTTPS_PROXY`, `NO_PROXY`)."""
    return None if urllib.request.proxy_bypass(host) else urllib.request.getproxies().get(scheme)
