"""What a way of telling somebody is, and how it may fail."""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final, Protocol

import httpx

from spanfuse_processor.exporters.alerts.model import Notice

Json = dict[str, Any]

AGAIN: Final = frozenset({408, 425, 429})
"""Statuses below 500 after which it is worth to try again."""


class RefusedError(Exception):
    """The receiver will never take it. The message is one line, without secrets."""


class LaterError(Exception):
    """The receiver may take it later.

    Args:
        why: one line, without secrets.
        after_s: not before so many seconds; 0: it does not say.
    """

    def __init__(self, why: str, after_s: float = 0) -> None:
        super().__init__(why)
        self.after_s = after_s


class Sender(Protocol):
    """Tells one receiver."""

    kind: str

    async def send(self, notice: Notice) -> None:
        """Send it, once.

        Raises:
            RefusedError: it will never be taken.
            LaterError: it may be, later.
        """


async def post(client: httpx.AsyncClient, url: str, content: bytes, headers: Mapping[str, str] | None = None) -> None:
    """POST JSON. The URL may be a secret, so errors do not name it. What is answered beside the status is not read, however
    much it is.

    Raises:
        RefusedError: it will never be taken.
        LaterError: it may be, later.
    """
    told = {"Content-Type": "application/json", **(headers or {})}
    try:
        async with client.stream("POST", url, content=content, headers=told) as answer:
            pass
    except (httpx.InvalidURL, httpx.UnsupportedProtocol):
        raise RefusedError("the URL cannot be used") from None
    except httpx.HTTPError as error:
        raise LaterError(f"it does not answer ({type(error).__name__})") from None
    if answer.is_success:
        return
    why = f"HTTP {answer.status_code}"
    if answer.status_code >= 500 or answer.status_code in AGAIN:
        raise LaterError(why, retry_after_s(answer.headers.get("retry-after", "")))
    raise RefusedError(why)


def retry_after_s(text: str) -> float:
    """What a header Retry-After says, seconds from now; 0: nothing."""
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError):
        return 0.0
