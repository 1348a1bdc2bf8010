"""A provider of models on a loopback port: OpenAI's and Anthropic's APIs over HTTP, with the answers that a test scripts.

It needs uvicorn only. As a process, for tests that kill it: `python -m tests.support.fake_provider 8123`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import uvicorn

from tests.support.provider_api.answers import BODIES, EVENTS
from tests.support.provider_api.reply import Reply

__all__ = ["Asked", "FakeProvider", "Hold", "Raw", "Reply", "broken_off", "failure", "malformed"]

GIVE_UP_S = 30.0
"""How long an answer is held back at most, seconds: a test that fails must not hang."""


@dataclass(frozen=True)
class Raw:
    """An answer byte for byte, sent piece by piece."""

    status: int = 200
    body: bytes | Sequence[bytes] = b""
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    breaks_off: bool = False
    """Whether the connection is closed before the answer is complete."""


@dataclass(frozen=True)
class Hold:
    """Holds an answer back until `release` is set: `then` begins after `after` pieces of it were sent."""

    then: Reply | Raw
    release: threading.Event
    after: int = 0


Answer = Reply | Raw | Hold


@dataclass(frozen=True)
class Asked:
    """A request as it arrived; names of headers are small letters."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    raw: bytes
    client: tuple[str, int]
    """The other end of the connection."""

    @property
    def body(self) -> Any:
        """The JSON of it; None where there is none."""
        try:
            return json.loads(self.raw)
        except ValueError:
            return None


def failure(status: int, message: str = "no", *, anthropic: bool = False, **headers: str) -> Raw:
    """An error as the provider words it; `retry_after="1"` adds a header."""
    error: dict[str, Any] = {"type": f"error_{status}", "message": message}
    body = {"type": "error", "error": error} if anthropic else {"error": error | {"param": None, "code": None}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Raw(status, json.dumps(body).encode(), {"content-type": "application/json"} | named)


def malformed() -> Raw:
    """An answer that says it is JSON, and is not."""
    return Raw(200, b'{"id": "chatcmpl-1", "choices": [')


def broken_off(path: str = "/v1/chat/completions", reply: Reply | None = None, after: int = 2) -> Raw:
    """A stream whose connection is lost after `after` events."""
    pieces = list(EVENTS[path]({}, reply or Reply(), 1))[:after]
    return Raw(200, pieces, {"content-type": "text/event-stream"}, breaks_off=True)


class FakeProvider:
    """Answers each request with the next of the script, and with `default` when it has run out.

    >>> with FakeProvider(Reply("one"), failure(500), Reply("three")) as provider:
    ...     client = OpenAI(base_url=provider.openai_url, api_key="sk-test")

    Args:
        script: answers, in order.
        default: the answer after them.
        port: 0: a free one.
        tls: options of uvicorn.

    Attributes:
        requests: what arrived, in order; lists of models and counts of tokens included.
        left: how many requests were given up by the client before the answer was complete.
        underway: how many are being answered.
    """

    def __init__(
        self, *script: Answer, default: Answer | None = None, port: int = 0, tls: dict[str, Any] | None = None
    ) -> None:
        self.requests: list[Asked] = []
        self.left = 0
        self.underway = 0
        self.default: Answer = default or Reply()
        self._script: deque[Answer] = deque(script)
        self._lock = threading.Lock()
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._app, host="127.0.0.1", port=port, log_config=None, log_level="critical", lifespan="off", ws="none",
                interface="asgi3",
                timeout_graceful_shutdown=1, **(tls or {}),
            )
        )  # fmt: skip
        self._scheme = "https" if tls else "http"
        self._thread = threading.Thread(target=self._server.run, name="fake-provider", daemon=True)

    @property
    def url(self) -> str:
        """`http://127.0.0.1:port`, which is the base of Anthropic's client."""
        return f"{self._scheme}://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"

    @property
    def openai_url(self) -> str:
        """The base of OpenAI's client."""
        return f"{self.url}/v1"

    @property
    def calls(self) -> int:
        """How many requests arrived."""
        return len(self.requests)

    def script(self, *answers: Answer) -> None:
        """Say what the next requests are answered, after what was said before."""
        with self._lock:
            self._script.extend(answers)

    def __enter__(self) -> Self:
        self._thread.start()
        end = time.monotonic() + GIVE_UP_S
        while not self._server.started:
            if time.monotonic() > end or not self._thread.is_alive():
                raise RuntimeError("the fake provider did not start")
            time.sleep(0.002)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(GIVE_UP_S)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        asked = await _read(scope, receive)
        with self._lock:
            self.requests.append(asked)
            number = len(self.requests)
            answer = self._script.popleft() if self._script else _held(asked, self.default)
            self.underway += 1
        client = _Client(receive, send)
        try:
            await self._answer(client, asked, answer, number)
        finally:
            client.watch.cancel()
            with self._lock:
                self.underway -= 1
                self.left += client.gone

    async def _answer(self, client: _Client, asked: Asked, answer: Answer, number: int) -> None:
        inner = answer.then if isinstance(answer, Hold) else answer
        raw = _raw(asked, inner, number) if isinstance(inner, Reply) else inner
        whole = isinstance(raw.body, bytes) and not raw.breaks_off
        if isinstance(answer, Hold) and whole:
            await client.held(answer.release)
        await client.begin(raw, len(raw.body) if whole else None)
        for n, piece in enumerate([raw.body] if isinstance(raw.body, bytes) else raw.body):
            if isinstance(answer, Hold) and n == answer.after:
                await client.held(answer.release)
            if client.gone:
                return
            await client.piece(piece)
        if not raw.breaks_off:
            await client.end()


class _Client:
    """The other end of one request, and whether it is still there."""

    def __init__(self, receive: Any, send: Any) -> None:
        self._send: Callable[[dict[str, Any]], Awaitable[None]] = send
        self._receive = receive
        self._complete = False
        self.gone = False
        self.watch = asyncio.create_task(self._watched())

    async def _watched(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = not self._complete

    async def begin(self, raw: Raw, length: int | None) -> None:
        size = [] if length is None else [(b"content-length", str(length).encode())]
        headers = size + [(k.lower().encode(), v.encode()) for k, v in raw.headers.items()]
        await self._send({"type": "http.response.start", "status": raw.status, "headers": headers})

    async def held(self, release: threading.Event) -> None:
        end = time.monotonic() + GIVE_UP_S
        while not release.is_set() and not self.gone and time.monotonic() < end:  # noqa: ASYNC110 - set by a thread
            await asyncio.sleep(0.002)

    async def piece(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        self._complete = True
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


async def _read(scope: Any, receive: Any) -> Asked:
    raw = b""
    while True:
        event = await receive()
        raw += event.get("body", b"")
        if not event.get("more_body"):
            break
    headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
    return Asked(scope["method"], scope["path"], scope["query_string"].decode(), headers, raw, scope["client"])


def _held(asked: Asked, answer: Answer) -> Answer:
    """The answer, held back for ever after so many pieces where the request itself says `hold`: a process has no script."""
    after = asked.body.get("hold") if isinstance(asked.body, dict) else None
    return Hold(answer, threading.Event(), after) if isinstance(after, int) and not isinstance(answer, Hold) else answer


def _raw(asked: Asked, reply: Reply, number: int) -> Raw:
    """A reply in the form of the API that was asked."""
    body = asked.body if isinstance(asked.body, dict) else {}
    if asked.path not in BODIES:
        return failure(404, f"no such path: {asked.path}")
    if body.get("stream") and asked.path in EVENTS:
        kind = {"content-type": "text/event-stream; charset=utf-8"} | reply.headers
        return Raw(200, list(EVENTS[asked.path](body, reply, number)), kind)
    data = json.dumps(BODIES[asked.path](body, reply, number)).encode()
    return Raw(200, data, {"content-type": "application/json"} | reply.headers)


if __name__ == "__main__":
    provider = FakeProvider(port=int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    with provider:
        print(provider.url, flush=True)
        threading.Event().wait()
