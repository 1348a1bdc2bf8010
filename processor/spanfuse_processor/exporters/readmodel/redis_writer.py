"""Writes the read model of a partition into Redis: each message once, by its offset, and the latest state of each name.

A message is one script, which does nothing where the partition has come further already. Everything has a bound or an end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from spanfuse_processor.exporters.readmodel.facts import Facts, Sums, valid
from spanfuse_processor.exporters.readmodel.model import MAX_DETECTIONS, MAX_HISTORY, MAX_STEPS, SessionRow
from spanfuse_processor.exporters.readmodel.redis_link import DAY_S, RedisLink

MAX_SESSIONS: Final = 20_000
"""Sessions listed, of all partitions together, those last at work, some 6 KB each; the others go first."""
MAX_SCOPES: Final = 10_000
"""Scopes of each kind, likewise."""
MAX_CHANGED: Final = 10_000
"""Writes of which is remembered which sessions they changed, some 1 KB each."""
LASTING_S: Final = 35 * DAY_S
"""How long scopes, and how far a partition has come, are remembered after the last word, seconds."""
SLACK_MS: Final = 60_000
"""By so much the clocks of those who write a partition may differ, milliseconds; a message that is later than that and has an
offset which was there before is of a topic that was made anew."""

Command = tuple[Any, ...]

SCRIPT: Final = f"""
local known = redis.call('HMGET', KEYS[1], ARGV[1], ARGV[1] .. '@')
local offset, at = tonumber(ARGV[2]), tonumber(ARGV[3])
if known[1] and offset <= tonumber(known[1]) and at <= tonumber(known[2]) + {SLACK_MS} then return 0 end
for _, command in ipairs(cmsgpack.unpack(ARGV[4])) do
  if command[1] == 'MOVE' then
    for _, step in ipairs(redis.call('LRANGE', command[2], 0, -1)) do redis.call('RPUSH', command[3], step) end
    redis.call('DEL', command[2])
  else
    redis.call(unpack(command))
  end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2], ARGV[1] .. '@', ARGV[3])
redis.call('EXPIRE', KEYS[1], {LASTING_S})
return 1
"""
"""KEYS[1]: what was applied; ARGV: source, offset, time (ms), commands. The keys of these have the hash tag of KEYS[1]."""


@dataclass(slots=True, frozen=True)
class Latest:
    """The latest of a session or scope."""

    partition: int
    snapshot: bytes
    """Its state; empty: it is over."""
    last_ns: int = 0
    """End of its last call."""
    row: SessionRow | None = None
    """For a session."""


class RedisWriter:
    """Makes the commands, and sends them.

    Args:
        link: where to.
        kept_s: how long a session or scope is shown after its last call, seconds.
    """

    def __init__(self, link: RedisLink, kept_s: float = DAY_S) -> None:
        self._link = link
        self._kept = str(max(60, int(kept_s))).encode()
        self._sessions = max(100, MAX_SESSIONS // link.partitions)
        self._scopes = max(100, MAX_SCOPES // link.partitions)
        self._detections = max(200, MAX_DETECTIONS // link.partitions)

    def message(self, partition: int, source: str, offset: int, at_ms: int, facts: Facts) -> Command:
        """The command that writes what a message has led to, once.

        Args:
            source: its topic.
        """
        packed = msgpack.packb([*self._of(partition, facts)], use_bin_type=False)
        key = self._link.key(partition, "applied")
        return ("EVAL", SCRIPT, 1, key, source, offset, at_ms, packed)

    def _of(self, partition: int, facts: Facts) -> Iterator[list[bytes]]:
        def key(what: str, name: str) -> bytes:
            return self._link.key(partition, what, _key(name))

        for origin, into in facts.taken.items():
            yield [b"MOVE", key("steps", origin), key("steps", into)]
        for session in dict.fromkeys(facts.gone):
            yield from self._over(partition, session)
        for session, owner in facts.owners.items():
            known = [text for name, value in owner._asdict().items() if value for text in (name, value)]
            if known:
                yield [b"HSET", key("session", session), *map(_key, known)]
                yield [b"EXPIRE", key("session", session), self._kept]
        for session, step in facts.steps:
            yield [b"RPUSH", key("steps", session), step.to_json()]
        for session in {session for session, _ in facts.steps}:
            yield from self._bounded(b"LTRIM", key("steps", session), -MAX_STEPS, -1)
        for detection, unenforced in facts.found:
            yield [b"LPUSH", self._link.key(partition, "detections"), detection.to_json()]
            if detection.session:
                at = key("session", detection.session)
                yield [b"HINCRBY", at, b"detections", b"1"]
                yield [b"HINCRBY", at, b"would_block", b"1" if unenforced else b"0"]
                yield [b"EXPIRE", at, self._kept]
        if facts.found:
            yield [b"LTRIM", self._link.key(partition, "detections"), b"0", str(self._detections - 1).encode()]
        for decision in facts.decisions:
            yield [b"LPUSH", key("history", decision.key), decision.to_json()]
            yield from self._bounded(b"LTRIM", key("history", decision.key), 0, MAX_HISTORY - 1)
        for (kind, name, minute), sums in facts.minutes.items():
            yield from self._minute(partition, kind, name, minute, sums)

    def _bounded(self, command: bytes, key: bytes, first: int, last: int) -> Iterator[list[bytes]]:
        yield [command, key, str(first).encode(), str(last).encode()]
        yield [b"EXPIRE", key, self._kept]

    def _minute(self, partition: int, kind: str, name: str, minute: int, sums: Sums) -> Iterator[list[bytes]]:
        key = hour_key(self._link, partition, kind, name, minute // 60)
        fields = {"c": sums.calls, "d": sums.cost_nano_usd, "t": sums.tokens, "b": sums.blocks}
        for field, amount in fields.items():
            if amount:
                yield [b"HINCRBY", key, f"{minute % 60}{field}".encode(), str(amount).encode()]
        yield [b"EXPIRE", key, str(DAY_S + 7200).encode()]

    def _over(self, partition: int, session: str) -> Iterator[list[bytes]]:
        name = _key(session)
        yield [b"DEL", self._link.key(partition, "session", name), self._link.key(partition, "steps", name)]
        yield [b"ZREM", self._link.key(partition, "sessions"), name]

    def session(self, session: str, latest: Latest) -> Iterator[Command]:
        """The commands that write the latest of a session."""
        partition, name = latest.partition, _key(session)
        if not latest.snapshot or latest.row is None:
            yield from (tuple(command) for command in self._over(partition, session))
            return
        key = self._link.key(partition, "session", name)
        yield ("HSET", key, "row", latest.row.to_json(), "state", latest.snapshot)
        yield ("EXPIRE", key, self._kept)
        yield ("ZADD", self._link.key(partition, "sessions"), latest.last_ns, name)

    def scope(self, scope: str, latest: Latest) -> Iterator[Command]:
        """The commands that write the latest of a scope."""
        partition, name = latest.partition, _key(scope)
        kind = scope.partition(":")[0]
        key, index = self._link.key(partition, "scope", name), self._link.key(partition, f"scopes:{kind}")
        if not latest.snapshot:
            yield ("DEL", key)
            yield ("ZREM", index, name)
            return
        yield ("SET", key, latest.snapshot, "EX", LASTING_S)
        yield ("ZADD", index, latest.last_ns, name)

    def changed(self, sessions: list[str]) -> Command:
        """The command that tells those who watch which sessions have changed."""
        return (
            "XADD",
            self._link.shared("changed"),
            "MAXLEN",
            "~",
            1000,
            "*",
            "s",
            msgpack.packb(list(map(_key, sessions))),
        )

    def bounds(self, partitions: Iterable[int], kinds: Iterable[str], now_ns: int) -> Iterator[Command]:
        """The commands that keep the lists within their bounds, and have all end when nobody writes any more."""
        for partition in partitions:
            yield ("ZREMRANGEBYRANK", self._link.key(partition, "sessions"), 0, -self._sessions - 1)
            yield ("ZREMRANGEBYSCORE", self._link.key(partition, "sessions"), "-inf", now_ns - int(self._kept) * 10**9)
            yield ("EXPIRE", self._link.key(partition, "sessions"), self._kept)
            for kind in kinds:
                yield ("ZREMRANGEBYRANK", self._link.key(partition, f"scopes:{kind}"), 0, -self._scopes - 1)
                yield ("EXPIRE", self._link.key(partition, f"scopes:{kind}"), LASTING_S)
        yield ("EXPIRE", self._link.shared("changed"), DAY_S)

    async def send(self, commands: list[Command]) -> list[Any]:
        """Send them in one round trip.

        Raises:
            UnavailableError: Redis does not answer; all may be sent again.

        Returns:
            An exception in the place of each that Redis refuses for good.
        """
        return await self._link.sent(commands)


def hour_key(link: RedisLink, partition: int, kind: str, name: str, hour: int) -> bytes:
    """The key of an hour's minutes; a field is the minute within it and `c`alls, `d`ollars (nano), `t`okens or `b`locks."""
    return link.key(partition, "minutes", f"{kind}:{hour}:{valid(name)}".encode())


def _key(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")
