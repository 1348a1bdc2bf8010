"""The read model of workers, read from Redis: of each partition its own, put together here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest
from typing import Any, Final

import orjson

from spanfuse_processor.exporters.readmodel.cursor import next_of, place_of
from spanfuse_processor.exporters.readmodel.facts import MINUTE_NS, Sums, numbered, series_of, valid
from spanfuse_processor.exporters.readmodel.model import (
    MAX_HISTORY,
    MAX_STEPS,
    DetectionPage,
    DetectionQuery,
    MinuteRow,
    SeriesKind,
    SessionPage,
    SessionQuery,
    SessionRow,
    Sort,
    StepRow,
)
from spanfuse_processor.exporters.readmodel.redis_link import RedisLink
from spanfuse_processor.exporters.readmodel.redis_mirror import Mirror, shown
from spanfuse_processor.exporters.readmodel.redis_writer import hour_key
from spanfuse_schemas import Decision, Detection
from spanfuse_schemas.topics import partition_of

_OF_SORT: Final[dict[Sort, str]] = {
    "last": "last_ns", "cost": "cost_nano_usd", "calls": "calls", "tokens": "tokens", "detections": "detections",
}  # fmt: skip


class RedisReadModel:
    """The read model of workers.

    Args:
        link: where it is.
        clock: now, nanoseconds since the Unix epoch.
        fresh_s: how old a list of sessions may be, seconds.
    """

    def __init__(self, link: RedisLink, clock: Callable[[], int] = time.time_ns, fresh_s: float = 1.0) -> None:
        self._link, self._clock, self._mirror = link, clock, Mirror(link, fresh_s)

    async def sessions(self, query: SessionQuery) -> SessionPage:
        """Sessions as they are listed."""
        column, behind, now_ns = _OF_SORT[query.sort], _behind(query.cursor), self._clock()
        found = [row for row in (shown(row, now_ns) for row in await self._mirror.rows()) if _fits(row, query)]
        if behind is not None:
            found = [row for row in found if (getattr(row, column), row.session) < behind]
        found = nlargest(query.limit + 1, found, key=lambda row: (getattr(row, column), row.session))
        page = tuple(found[: query.limit])
        more = len(found) > query.limit
        return SessionPage(
            sessions=page, next=next_of(getattr(page[-1], column), _key(page[-1].session)) if more else ""
        )

    async def count(self) -> int:
        """How many sessions are listed."""
        return len(await self._mirror.rows())

    async def session(self, session: str) -> SessionRow | None:
        """One session."""
        (row,) = await self._mirror.read([session])
        return shown(row, self._clock()) if row is not None else None

    async def changed(self) -> list[str]:
        """Sessions that have changed since the last time."""
        return await self._mirror.changed()

    async def workers(self) -> list[dict[str, Any]]:
        """What workers tell of themselves; those of which nothing was heard for half a minute are left out."""
        names = sorted(await self._link.asked(self._link.client.smembers(self._link.shared("workers"))))
        found = await self._link.together([("GET", name) for name in names])
        return [orjson.loads(told) for told in found if told is not None]

    async def timeline(self, session: str, limit: int = MAX_STEPS) -> list[StepRow]:
        """The last steps of a session; of two of one span the later one is told."""
        key = self._link.key(self._partition(session), "steps", _key(session))
        found = await self._link.asked(self._link.client.lrange(key, -MAX_STEPS, -1))
        steps: dict[str, StepRow] = {}
        for data in found:
            step: StepRow = StepRow.from_json(data)
            steps[step.span_id] = step
        last = sorted(steps.values(), key=lambda step: step.at_ns)[-min(limit, MAX_STEPS) :]
        return numbered(last)

    async def detections(self, query: DetectionQuery) -> DetectionPage:
        """Detections, newest first."""
        lists = await self._link.together(
            [("LRANGE", self._link.key(p, "detections"), 0, -1) for p in range(self._link.partitions)]
        )
        behind = _behind(query.cursor)
        found = [(at, data) for data in (d for some in lists for d in some) if (at := _at(data, query, behind))]
        found.sort(reverse=True)
        page = found[: query.limit]
        return DetectionPage(
            detections=tuple(Detection.from_json(data) for _, data in page),
            next=next_of(page[-1][0][0], _key(page[-1][0][1])) if len(found) > query.limit else "",
        )

    async def history(self, key: str, limit: int = MAX_HISTORY) -> list[Decision]:
        """What was decided about a key, newest first."""
        partition = self._partition(key.removeprefix("session:"))
        name = self._link.key(partition, "history", _key(key))
        found = await self._link.asked(self._link.client.lrange(name, 0, min(limit, MAX_HISTORY) - 1))
        return [Decision.from_json(data) for data in found]

    async def series(self, kind: SeriesKind, name: str, minutes: int) -> list[MinuteRow]:
        """The last minutes, oldest first: what all partitions tell of them together."""
        now_ns = self._clock()
        last = now_ns // MINUTE_NS
        hours = range((last - minutes + 1) // 60, last // 60 + 1)
        asked = [(hour, p) for hour in hours for p in range(self._link.partitions)]
        answers = await self._link.together([("HGETALL", hour_key(self._link, p, kind, name, h)) for h, p in asked])
        found = [sums for (hour, _), answer in zip(asked, answers, strict=True) for sums in _sums(hour, answer)]
        return series_of(found, minutes, now_ns)

    async def state(self, session: str) -> bytes | None:
        """The snapshot of a session's state; none if it is not known."""
        key = self._link.key(self._partition(session), "session", _key(session))
        found: bytes | None = await self._link.asked(self._link.client.hget(key, "state"))
        return found

    async def scope_states(self, scopes: Iterable[str]) -> dict[str, bytes | None]:
        """The snapshots of some scopes, such as of `agent:research`; none of one that is not known."""
        names = list(scopes)
        keys = [self._link.key(self._partition(scope), "scope", _key(scope)) for scope in names]
        found = await self._link.together([("GET", key) for key in keys])
        return dict(zip(names, found, strict=True))

    async def scopes(self, kind: str, limit: int) -> list[bytes]:
        """Snapshots of the scopes of a kind, those last at work first."""
        partitions = range(self._link.partitions)
        lists = await self._link.together(
            [("ZREVRANGE", self._link.key(p, f"scopes:{kind}"), 0, limit - 1, "WITHSCORES") for p in partitions]
        )
        names = [
            (score, p, name) for p, scored in zip(partitions, lists, strict=True) for name, score in _pairs(scored)
        ]
        names.sort(reverse=True)
        found = await self._link.together([("GET", self._link.key(p, "scope", name)) for _, p, name in names[:limit]])
        return [snapshot for snapshot in found if snapshot is not None]

    def _partition(self, name: str) -> int:
        return partition_of(name, self._link.partitions)


def _pairs(scored: Sequence[Any]) -> list[tuple[bytes, float]]:
    """Names and scores: flat in the older protocol of Redis, paired in the newer."""
    if scored and isinstance(scored[0], (list, tuple)):
        return [(name, float(score)) for name, score in scored]
    return [(name, float(score)) for name, score in zip(scored[::2], scored[1::2], strict=True)]


def _fits(row: SessionRow, query: SessionQuery) -> bool:
    if row.last_ns < query.since_ns:
        return False
    if any(getattr(query, name) not in ("", getattr(row, name)) for name in ("state", "agent", "user", "team")):
        return False
    text = query.query.lower()
    return not text or text in "\n".join((row.session, row.agent, row.user, row.team, row.model)).lower()


def _at(data: bytes, query: DetectionQuery, behind: tuple[int, str] | None) -> tuple[int, str] | None:
    """Where a detection stands in the list; none if it is not asked for."""
    fields: dict[str, Any] = orjson.loads(data)
    at: tuple[int, str] = fields["at_ns"], fields["id"]
    wanted = (("rule", query.rule), ("session", query.session), ("agent", query.agent), ("user", query.user))
    if any(value and fields.get(name, "") != valid(value) for name, value in (*wanted, ("action", query.action))):
        return None
    return at if at[0] >= query.since_ns and (behind is None or at < behind) else None


def _sums(hour: int, fields: Any) -> list[tuple[int, Sums]]:
    found: dict[int, Sums] = {}
    names = {"c": "calls", "d": "cost_nano_usd", "t": "tokens", "b": "blocks"}
    pairs = fields.items() if isinstance(fields, dict) else zip(fields[::2], fields[1::2], strict=True)
    for field, amount in pairs:
        text = field.decode()
        setattr(found.setdefault(hour * 60 + int(text[:-1]), Sums()), names[text[-1]], int(amount))
    return list(found.items())


def _behind(cursor: str) -> tuple[int, str] | None:
    """Where the page before ended; none: there was none."""
    if not cursor:
        return None
    at, name = place_of(cursor)
    return at, name.decode("utf-8", "replace")


def _key(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")
