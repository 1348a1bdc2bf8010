"""How an answer gets from the provider to the client: as it comes, or, where it is one JSON, with what it cost."""

from __future__ import annotations

from typing import Final

from spanfuse import Guard
from spanfuse.calls.model_call import ModelCall
from spanfuse_processor.proxy.answers import Reader
from spanfuse_processor.proxy.headers import Headers, downstream
from spanfuse_processor.proxy.upstream import Answer
from spanfuse_processor.proxy.wire import Client

HELD_BYTES: Final = 8 * 1024 * 1024
"""A JSON answer is held back up to this size, so that its headers can say what it cost."""

_ENCODINGS: Final = {"": "", "identity": "", "gzip": "gzip", "deflate": "deflate"}


class ProviderFailed(Exception):
    """The provider answered with an error.

    Attributes:
        status_code: its HTTP status.
    """

    def __init__(self, status: int) -> None:
        super().__init__(f"the provider answered {status}")
        self.status_code = status


async def pass_on(client: Client, answer: Answer, call: ModelCall | None, guard: Guard | None) -> None:
    """Pass an answer on.

    Args:
        client: gets it.
        answer: of the provider.
        call: learns from it, and ends before the client has it whole; None: no model call.
        guard: knows what the session has used.
    """
    headers = downstream(answer.headers)
    encoding = _ENCODINGS.get(answer.header(b"content-encoding").strip().lower())
    kind = answer.header(b"content-type").partition(";")[0].strip().lower()
    if call is None or guard is None or answer.status >= 400 or encoding is None:
        await _as_it_comes(client, answer, headers, None, None)
        return
    reader = Reader(call, events=kind == "text/event-stream", encoding=encoding)
    if kind == "application/json":
        await _whole(client, answer, headers, reader, call, guard)
    else:
        await _as_it_comes(client, answer, headers + _used(call, guard), reader, call)


async def _as_it_comes(
    client: Client, answer: Answer, headers: Headers, reader: Reader | None, call: ModelCall | None
) -> None:
    await client.begin(answer.status, headers)
    async for piece in answer.pieces():
        if reader is not None and call is not None and reader.feed(piece):
            await _end(client, reader, call)  # what the client asks next already counts on it
        await client.piece(piece)
    if reader is not None and call is not None:
        await _end(client, reader, call)
    await client.end()


async def _whole(
    client: Client, answer: Answer, headers: Headers, reader: Reader, call: ModelCall, guard: Guard
) -> None:
    held: list[bytes] = []
    size = 0
    async for piece in answer.pieces():
        reader.feed(piece)
        size += len(piece)
        if size <= HELD_BYTES:
            held.append(piece)
            continue
        if not client.begun:
            await client.begin(answer.status, headers)
        for part in (*held, piece):
            await client.piece(part)
        held.clear()
    await _end(client, reader, call)
    if not client.begun:
        await client.begin(answer.status, headers + _used(call, guard))
    await client.end(b"".join(held))


async def _end(client: Client, reader: Reader, call: ModelCall) -> None:
    client.unwatch()  # whoever leaves now has had everything
    reader.finish()
    await call.aend(reader.error)


def _used(call: ModelCall, guard: Guard) -> Headers:
    """What the call and its session have used, as far as it is known by now."""
    found: Headers = []
    if call.ended_ns:
        found.append((b"x-spanfuse-cost", _usd(call.cost_nano_usd / 1e9)))
    if call.who.session is not None:
        spent = guard.spent(call.who.session)
        found.append((b"x-spanfuse-session-steps", str(spent.steps).encode()))
        if call.ended_ns:
            found.append((b"x-spanfuse-session-cost", _usd(spent.cost_usd)))
    return found


def _usd(amount: float) -> bytes:
    return f"{amount:.9f}".encode()
