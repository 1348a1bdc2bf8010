"""The way of a request: who sends it, whether the Guard lets it through, and what the provider answers."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import orjson

from spanfuse import Blocked, Guard
from spanfuse.context import Session
from spanfuse.reading.asked import asked, nudged
from spanfuse.reading.earlier import Earlier
from spanfuse_processor.errors import DecodeError, UnavailableError
from spanfuse_processor.otlp.inflate import TooLargeError, inflate
from spanfuse_processor.otlp.room import Room
from spanfuse_processor.proxy import whose
from spanfuse_processor.proxy.exchange import ProviderFailed, pass_on
from spanfuse_processor.proxy.headers import upstream
from spanfuse_processor.proxy.refusals import Refusal, blocked, refused
from spanfuse_processor.proxy.routes import Provider, Route, route
from spanfuse_processor.proxy.upstream import Upstream
from spanfuse_processor.proxy.whose import Whose
from spanfuse_processor.proxy.wire import Client, ClientGone

if TYPE_CHECKING:
    from spanfuse_processor.proxy.measured import Measured

MAX_UNDER_WAY: Final = 4096
"""Requests at one time; more are refused with 503, by which clients come again."""
ROOM_BYTES: Final = 512 * 1024 * 1024
"""Bytes of all requests under way to models."""

_COME_AGAIN: Final = (b"retry-after", b"1")


class Proxy:
    """An ASGI application.

    Args:
        guard: asked before each model call.
        upstreams: the providers.
        token: what clients have to know; None: everybody may send.
        nudge: whether the Guard's nudges are added to conversations.
        max_body_bytes: largest request to a model, bytes.
        join: makes what follows in the present task part of the trace that the headers of a request name.
    """

    def __init__(
        self,
        guard: Guard,
        upstreams: Mapping[Provider, Upstream],
        *,
        token: str | None = None,
        nudge: bool = False,
        max_body_bytes: int,
        join: Callable[[Mapping[str, str]], object] = len,
    ) -> None:
        self._guard, self._upstreams = guard, upstreams
        self._token = None if token is None else token.encode()
        self._nudge, self._max_body = nudge, max_body_bytes
        self._join = join
        self._earlier = Earlier()
        self._room = Room()
        self._room.limit = ROOM_BYTES
        self.under_way = 0
        """Requests that are being answered."""
        self.measured: Measured | None = None
        """Measures it; none: nothing does."""
        self.ready = False
        """Whether it wants requests: it has started, and does not stop."""
        self.counts: Counter[str] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        client, began_s = Client(scope, receive, send), time.perf_counter()
        self.under_way += 1
        try:
            await self._serve(client)
        except ClientGone:
            self.counts["clients_gone"] += 1
        except asyncio.CancelledError:
            if not client.gone:
                raise
            self.counts["clients_gone"] += 1
        finally:
            client.unwatch()
            self.under_way -= 1
            if self.measured is not None:
                self.measured.answered(client, began_s)

    async def _serve(self, client: Client) -> None:
        try:
            await self._answer(client)
        except Refusal as refusal:
            self.counts[f"refused_{refusal.status}"] += 1
            await client.refuse(refusal)
        except aiohttp.ClientError as error:
            self.counts["provider_errors"] += 1
            if client.begun:  # a connection that breaks off is all that can be said by now
                raise
            await client.refuse(_unreachable(error))

    async def _answer(self, client: Client) -> None:
        if client.path in ("/healthz", "/readyz"):
            await self._health(client)
            return
        if self.under_way > MAX_UNDER_WAY:
            raise _busy("too many requests under way")
        found = route(client.method, client.path, client.query, client.headers)
        if found is None:
            raise refused(404, "not_found", "There is nothing here: paths are /v1/…, /openai/v1/… and /anthropic/v1/….")
        client.provider = found.provider
        key = self._admitted(client)
        self.counts["requests"] += 1
        if found.kind is None:
            await self._pass(client, found, key)
        else:
            await self._guarded(client, found, key)

    def _admitted(self, client: Client) -> str | None:
        """The key that goes to the provider, None for the client's own; if it knows the token, where there is one."""
        key = whose.provider_key(client.headers)
        if self._token is not None:
            shown = [client.headers.get("x-spanfuse-token")]
            if key is not None:  # with a key of its own for the provider, the usual places are free
                shown += [
                    client.headers.get("authorization", "").removeprefix("Bearer "),
                    client.headers.get("x-api-key"),
                ]
            if not any(hmac.compare_digest((given or "").strip().encode(), self._token) for given in shown):
                raise refused(401, "unauthorized", "The token of the proxy is missing or wrong: send x-spanfuse-token.")
        return key

    async def _health(self, client: Client) -> None:
        status = 200 if self.ready or client.path == "/healthz" else 503
        known = {
            "ready": self.ready,
            "guard": self._guard.state,
            "under_way": self.under_way - 1,
            "counts": self.counts,
        }
        body = orjson.dumps({"status": "ok"} if client.path == "/healthz" else known)
        await client.begin(status, [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))])
        await client.end(body)

    async def _pass(self, client: Client, found: Route, key: str | None) -> None:
        """Pass a request on that calls no model: files, lists of models, batches."""
        length = client.headers.get("content-length")
        to = self._upstreams[found.provider]
        headers = upstream(client.given, to.host, int(length) if length else None, found.provider, key)
        body = _sent(client) if client.has_body else None
        if body is None:
            client.watch()
        try:
            async with to.ask(client.method, found.target, headers, body) as answer:
                await pass_on(client, answer, None, None)
        except aiohttp.ClientError:
            if client.failure is not None and not client.begun:  # what was the matter with its body, if anything
                raise client.failure from None
            raise

    async def _guarded(self, client: Client, found: Route, key: str | None) -> None:
        with self._room.share() as share:
            try:
                data = await client.body(share, self._max_body)
                plain = _plain(data, client.headers.get("content-encoding", ""), self._max_body)
                if plain is not data:
                    share.take(len(data) + len(plain))
            except TooLargeError:
                raise refused(413, "too_large", f"The request is larger than {self._max_body} bytes.") from None
            except UnavailableError as error:
                raise _busy(str(error)) from None
            client.watch()
            body = _json(plain)
            who = whose.read(client.headers, found.names, body)
            self._join(client.headers)
            try:
                with self._session(who):
                    await self._called(client, found, key, data, body)
            except Blocked as refusal:
                self.counts["blocked"] += 1
                raise blocked(refusal, who.session, who.agent) from None

    def _session(self, who: Whose) -> Session:
        return self._guard.session(
            who.session, agent=who.agent, user=who.user, team=who.team, trace=who.trace,
            budget_usd=who.budget_usd, max_steps=who.max_steps,
        )  # fmt: skip

    async def _called(self, client: Client, found: Route, key: str | None, data: bytes, body: dict[str, Any]) -> None:
        kind, given = found.kind, client.given
        assert kind is not None
        async with self._guard.call(provider=found.provider, **asked(kind, body, self._earlier)) as call:
            if self._nudge and call.nudge:
                data = orjson.dumps(nudged(kind, body, call.nudge))
                given = [header for header in given if header[0] != b"content-encoding"]
            to = self._upstreams[found.provider]
            headers = upstream(given, to.host, len(data), found.provider, key)
            async with to.ask(client.method, found.target, headers, data) as answer:
                if answer.status >= 400:
                    await call.aend(ProviderFailed(answer.status))
                await pass_on(client, answer, call, self._guard)
            if kind == "responses":
                self._earlier.keep(body, call.answer)


async def _sent(client: Client) -> AsyncIterator[bytes]:
    async for piece in client.pieces():
        yield piece
    client.watch()


def _plain(data: bytes, encoding: str, limit: int) -> bytes:
    """A request without its encoding; as it is, where it is not encoded as it says.

    Raises:
        Refusal: 415; it is encoded so that nothing can be read.
        TooLargeError: it is too large when decompressed.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return data
    if encoding not in ("gzip", "deflate"):
        raise refused(415, "encoding", f"Requests are plain or gzip, not {encoding[:32]!r}.", param="content-encoding")
    try:
        return inflate(data, limit)
    except DecodeError:
        return data


def _json(data: bytes) -> dict[str, Any]:
    """The JSON of a request; empty for what is none: the provider says what is wrong with it."""
    try:
        found = orjson.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _unreachable(error: aiohttp.ClientError) -> Refusal:
    if isinstance(error, aiohttp.ServerTimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
        return refused(504, "provider_timeout", "The provider did not answer in time.", final=False)
    # Of what was no HTTP only the kind: its text may quote what came.
    why = str(error) if isinstance(error, aiohttp.ClientConnectionError) else type(error).__name__
    return refused(502, "provider_unreachable", f"The provider cannot be reached: {why}.", final=False)


def _busy(why: str) -> Refusal:
    refusal = refused(503, "busy", f"The proxy is busy: {why}.", final=False)
    refusal.headers.append(_COME_AGAIN)
    return refusal
