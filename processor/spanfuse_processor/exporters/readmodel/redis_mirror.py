"""The rows of all sessions in memory, kept as they are in Redis by what workers say has changed: lists are sorted and narrowed
here, as Redis would have to read all for each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgpack
import orjson

from spanfuse_processor.exporters.readmodel.model import SessionRow
from spanfuse_processor.exporters.readmodel.redis_link import RedisLink
from spanfuse_processor.exporters.readmodel.redis_writer import MAX_SESSIONS
from spanfuse_schemas.topics import partition_of

_AT_ONCE: Final = 500
"""Sessions read in one round trip."""
_MOST: Final = 500
"""Writes that are looked at in one refresh; of more, all sessions are read anew."""
_FIELDS: Final = ("row", "agent", "user", "team", "model", "detections", "would_block")


class Mirror:
    """The rows.

    Args:
        link: where Redis is.
        fresh_s: how old they may be, seconds.
    """

    def __init__(self, link: RedisLink, fresh_s: float) -> None:
        self._link, self._fresh_s = link, fresh_s
        self._rows: dict[str, SessionRow] = {}
        self._behind = ""
        self._looked = 0.0
        self._changed: set[str] = set()
        self._turn = asyncio.Lock()

    async def rows(self) -> Collection[SessionRow]:
        """All of them, as they were written; an open breaker may have expired."""
        await self.refresh()
        return self._rows.values()

    async def changed(self) -> list[str]:
        """Sessions that have changed since the last time."""
        await self.refresh()
        found, self._changed = sorted(self._changed), set()
        return found

    async def refresh(self) -> None:
        """Read what has changed, unless that was just done."""
        async with self._turn:
            if self._behind and time.monotonic() - self._looked < self._fresh_s:
                return
            names = await self._news()
            if names is None:
                await self._load()
            elif names:
                await self._read(names)
            self._looked = time.monotonic()

    async def _news(self) -> list[str] | None:
        """Sessions that have changed; none: that cannot be told, so that all are to be read."""
        key, client = self._link.shared("changed"), self._link.client
        if not self._behind:
            return None
        first = await self._link.asked(client.xrange(key, count=1))
        if self._behind != "0-0" and (not first or _order(first[0][0]) > _order(self._behind.encode())):
            return None  # what came behind it may have been dropped
        found = await self._link.asked(client.xrange(key, min=f"({self._behind}", count=_MOST))
        if len(found) == _MOST:
            return None
        if found:
            self._behind = found[-1][0].decode()
        names = (name.decode("utf-8", "surrogatepass") for _, fields in found for name in msgpack.unpackb(fields[b"s"]))
        return list(dict.fromkeys(names))

    async def _load(self) -> None:
        last = await self._link.asked(self._link.client.xrevrange(self._link.shared("changed"), count=1))
        behind = last[0][0].decode() if last else "0-0"
        lists = await self._link.together(
            [("ZREVRANGE", self._link.key(p, "sessions"), 0, -1) for p in range(self._link.partitions)]
        )
        self._rows.clear()
        await self._read([name.decode("utf-8", "surrogatepass") for names in lists for name in names])
        if not self._behind:
            self._changed.clear()  # what was there before is no news
        self._behind = behind

    async def _read(self, names: Sequence[str]) -> None:
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            for name, row in zip(some, await self.read(some), strict=True):
                if row is None:
                    self._rows.pop(name, None)
                else:
                    self._rows[name] = row
            await asyncio.sleep(0)
        self._changed.update(names)
        if len(self._rows) > MAX_SESSIONS:
            kept = sorted(self._rows.items(), key=lambda item: item[1].last_ns, reverse=True)[:MAX_SESSIONS]
            self._rows = dict(kept)

    async def read(self, names: Sequence[str]) -> list[SessionRow | None]:
        """The rows of some sessions as they are in Redis; none of one that is not known."""
        keys = [name.encode("utf-8", "surrogatepass") for name in names]
        places = [partition_of(name, self._link.partitions) for name in names]
        found = await self._link.together(
            [("HMGET", self._link.key(p, "session", key), *_FIELDS) for p, key in zip(places, keys, strict=True)]
        )
        return [_row(values) for values in found]


def _row(values: Sequence[bytes | None]) -> SessionRow | None:
    data, *names, detections, would_block = values
    if data is None:
        return None
    fields: dict[str, Any] = orjson.loads(data)
    for name, value in zip(("agent", "user", "team", "model"), names, strict=True):
        if value:
            fields[name] = value.decode("utf-8", "replace")
    return SessionRow.made(**fields, detections=int(detections or 0), would_block=int(would_block or 0))


def shown(row: SessionRow, now_ns: int) -> SessionRow:
    """A row as people are to see it: see `hosts.board.shown`."""
    if row.state != "open" or row.expires_at_ns is None or row.expires_at_ns > now_ns:
        return row
    changed = {"state": "closed", "action": "allow"} if row.lapses else {"state": "half_open"}
    return row.model_copy(update=changed)


def _order(entry: bytes) -> tuple[int, int]:
    """An id of a stream, to be compared."""
    at, _, number = entry.partition(b"-")
    return int(at), int(number)
