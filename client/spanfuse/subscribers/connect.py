"""From what a user writes, or the environment says, to a subscriber."""

from __future__ import annotations

import os

from spanfuse.subscribers.base import Subscriber

DEFAULT_URL = "http://127.0.0.1:8787"
_METHODS = ("start", "close", "after_fork")


def connect(where: Subscriber | str | None, *, nobody: bool = False, token: str | None = None) -> Subscriber:
    """The subscriber for an address.

    Args:
        where: `http(s)://host:port` of the API; `kafka://host:port[,host:port]`; None: `SPANFUSE_API_URL`, else
            `http://127.0.0.1:8787`. A subscriber is given back as it is.
        nobody: where no address is named there is nobody to ask.
        token: for the API; None: `SPANFUSE_API_TOKEN`, else none.

    Raises:
        TypeError: for what is neither; found out later, it would break the fork of a process that has other Guards too.
        ValueError: for any other address, or a token that fits into no header.
        ImportError: for Kafka without the extra `kafka`.
    """
    if where is not None and not isinstance(where, str):
        if isinstance(where, type) or not all(callable(getattr(where, name, None)) for name in _METHODS):
            raise TypeError(f"a subscriber is an address or has {', '.join(_METHODS)}, unlike {type(where).__name__}")
        return where
    url = where or os.environ.get("SPANFUSE_API_URL") or ("" if nobody else DEFAULT_URL)
    if not url:
        from spanfuse.subscribers.memory import MemorySubscriber

        return MemorySubscriber()
    if url.startswith("kafka://"):
        from spanfuse.subscribers.kafka import KafkaSubscriber

        return KafkaSubscriber(url.removeprefix("kafka://").rstrip("/") or None)
    from spanfuse.subscribers.sse import SseSubscriber

    return SseSubscriber(url, headers=_authorization(token))


def _authorization(token: str | None) -> dict[str, str]:
    """The header of a token. White space around it, such as the end of a file's line, is no part of it."""
    secret = (token or os.environ.get("SPANFUSE_API_TOKEN") or "").strip()
    if not secret:
        return {}
    if not secret.isascii() or not secret.isprintable():  # Here: later it would be shown by whoever refuses it.
        raise ValueError("the token of the API must be a text in ASCII, on one line")
    return {"Authorization": f"Bearer {secret}"}
