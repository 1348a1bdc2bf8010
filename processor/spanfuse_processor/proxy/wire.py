"""The client's side of one request, over ASGI: its body, its answer, and whether it is still there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, Final

from spanfuse_processor.otlp.inflate import TooLargeError
from spanfuse_processor.otlp.room import Share
from spanfuse_processor.proxy.headers import Headers, as_text
from spanfuse_processor.proxy.refusals import Refusal, refused

BODY_TIMEOUT_S: Final = 60.0
"""How long the client may be silent in the middle of its request, seconds."""
STALL_S: Final = 600.0
"""How long the client may take no more of its answer, seconds; the provider is held up all the while."""

Message = MutableMapping[str, Any]


class ClientGone(Exception):
    """The client closed its connection."""


def too_late() -> Refusal:
    """The refusal of a request that does not come."""
    return refused(408, "timeout", "The request took too long to arrive.", final=False)


class Client:
    """One request.

    Attributes:
        gone: it has closed the connection before its answer was complete.
        failure: what was raised while its body was read.
        begun: its answer has begun.
        begun_s: when, by `time.perf_counter`.
        status: HTTP status of its answer; 0: it has not begun.
        provider: whom it is for; empty: not known, or nobody.
        headers: by name, in small letters; of several with one name, joined by commas.
        given: headers as they came.
    """

    def __init__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._task = asyncio.current_task()
        self._watch: asyncio.Task[None] | None = None
        self.failure: Refusal | ClientGone | None = None
        self.gone = False
        self.begun = False
        self.begun_s, self.status, self.provider = 0.0, 0, ""
        self.given: Headers = list(scope["headers"])
        self.headers: dict[str, str] = {}
        for name, value in self.given:
            key, text = name.decode("latin-1"), as_text(value)
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    @property
    def method(self) -> str:
        """HTTP method."""
        return str(self._scope["method"])

    @property
    def path(self) -> str:
        """Path as it came, percent-encoded."""
        return bytes(self._scope["raw_path"]).partition(b"?")[0].decode("latin-1")

    @property
    def query(self) -> str:
        """Query as it came."""
        return bytes(self._scope["query_string"]).decode("latin-1")

    @property
    def has_body(self) -> bool:
        """Whether a body comes with it."""
        return self.headers.get("content-length", "0") != "0" or "transfer-encoding" in self.headers

    async def body(self, share: Share, limit: int) -> bytes:
        """The whole body.

        Args:
            share: of the memory for all requests.
            limit: the most that it may be, bytes.

        Raises:
            TooLargeError: it is larger.
            UnavailableError: there is no memory for it at present.
            Refusal: it does not come.
            ClientGone: the client went away.
        """
        length = self.headers.get("content-length", "")
        if length.isdecimal() and int(length) > limit:
            raise TooLargeError
        data = bytearray()
        async for piece in self.pieces():
            data += piece
            if len(data) > limit:
                raise TooLargeError
            share.take(len(data))
        return bytes(data)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes; read no faster than it is consumed.

        Raises:
            Refusal: it does not come.
            ClientGone: the client went away.
        """
        more = True
        while more:
            try:
                async with asyncio.timeout(BODY_TIMEOUT_S):
                    event = await self._receive()
            except TimeoutError:
                self.failure = too_late()
                raise self.failure from None
            if event["type"] == "http.disconnect":
                self.gone, self.failure = True, ClientGone()
                raise self.failure
            more = event.get("more_body", False)
            if event.get("body"):
                yield event["body"]

    def watch(self) -> None:
        """From now on cancel the request's task once the client closes the connection. The body has to be read before."""
        self._watch = asyncio.create_task(self._watched())

    async def _watched(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        if self._task is not None:
            self._task.cancel()

    def unwatch(self) -> None:
        """Watch no more."""
        if self._watch is not None:
            self._watch.cancel()

    async def begin(self, status: int, headers: Headers) -> None:
        """Send status and headers."""
        self.begun, self.status, self.begun_s = True, status, time.perf_counter()
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def piece(self, data: bytes) -> None:
        """Send a piece of the body; returns once the connection takes more.

        Raises:
            TimeoutError: the client reads no more.
        """
        async with asyncio.timeout(STALL_S):
            await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        """Send the last piece of the body."""
        self.unwatch()  # a client may close right after it, which is no matter any more
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal."""
        await self.begin(refusal.status, refusal.headers)
        await self.end(refusal.body)
