"""Which headers go on: all but those that belong to one connection, and ours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from spanfuse_processor.proxy.routes import Provider
from spanfuse_processor.proxy.whose import PREFIXES

Headers = list[tuple[bytes, bytes]]

_HOP_BY_HOP: Final = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer",
        b"transfer-encoding", b"upgrade",
    }
)  # fmt: skip
"""Those of one connection, RFC 9110 7.6.1; what `Connection` names is added."""
_MADE_ANEW: Final = frozenset({b"host", b"content-length", b"expect", b"accept-encoding"})
_OURS: Final = tuple(prefix.encode() for prefix in PREFIXES)
_CREDENTIALS: Final = frozenset({b"authorization", b"x-api-key"})
_READABLE: Final = frozenset({"gzip", "deflate", "identity"})
"""Encodings of an answer that can be read along."""


def upstream(given: Headers, host: bytes, length: int | None, provider: Provider, key: str | None) -> Headers:
    """The headers of a request as the provider gets it.

    Args:
        given: as the client sent them, names in small letters.
        host: of the provider.
        length: of the body, bytes; None: it is sent in chunks, or there is none.
        provider: whose API it is.
        key: goes in place of the client's credentials; None: those go.
    """
    dropped = _MADE_ANEW | _of_connection(given) | (_CREDENTIALS if key is not None else frozenset())
    headers = [(b"host", host), *(h for h in given if h[0] not in dropped and not h[0].startswith(_OURS))]
    headers += [(b"accept-encoding", accepted) for accepted in _accepted(given)]
    if length is not None:
        headers.append((b"content-length", str(length).encode()))
    if key is not None:
        secret = key.encode()
        headers.append((b"x-api-key", secret) if provider == "anthropic" else (b"authorization", b"Bearer " + secret))
    return headers


def downstream(given: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The headers of an answer as the client gets it."""
    small = [(name.lower(), value) for name, value in given]
    dropped = _of_connection(small)
    return [header for header in small if header[0] not in dropped]


def as_text(value: bytes) -> str:
    """A value as text, of which the same bytes can be made again as far as they are UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _of_connection(headers: Headers) -> frozenset[bytes]:
    named = [value for name, value in headers if name == b"connection"]
    if not named:
        return _HOP_BY_HOP
    return _HOP_BY_HOP | {token.strip().lower() for value in named for token in value.split(b",")}


def _accepted(given: Headers) -> list[bytes]:
    """What encodings the provider may answer in: those that the client takes, as far as they can be read along."""
    asked = [value.decode("latin-1") for name, value in given if name == b"accept-encoding"]
    if not asked:
        return []
    wanted = [part.strip() for value in asked for part in value.split(",")]
    kept = [part for part in wanted if part.partition(";")[0].strip().lower() in _READABLE]
    return [", ".join(kept or ["identity"]).encode("latin-1")]
