"""What a worker tells the read model, aside from detection: nobody waits for it, and what there is no room for is dropped.

Messages go in as they were applied, and the latest of sessions and scopes as it is stored. While Redis is away both wait: the
latest of a name takes the place of the one before, and of messages the oldest are dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NamedTuple

import orjson

from spanfuse_processor.core.pipeline import Outcome
from spanfuse_processor.core.scopes.stage import ScopeOutcome
from spanfuse_processor.core.scopes.state import KINDS
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.exporters.readmodel.facts import Facts
from spanfuse_processor.exporters.readmodel.redis_link import RedisLink
from spanfuse_processor.exporters.readmodel.redis_writer import Command, Latest, RedisWriter
from spanfuse_processor.hosts.facts import Mode, facts_of, row_of, scope_facts
from spanfuse_processor.hosts.stream.table import HEADER_BYTES

log = logging.getLogger(__name__)

MAX_CALLS: Final = 50_000
"""Calls of messages that may wait, some 2 KB each."""
MAX_LATEST: Final = 20_000
"""Sessions and scopes whose latest may wait, some 5 KB each; of more, those that changed longest ago are left out."""
AT_ONCE: Final = 50
"""Names written in one round trip."""
CALLS_AT_ONCE: Final = 200
"""Calls of messages written in one, some 3 ms of work: the longest that a message has to wait for it, if it is not larger."""
PAUSE_S: Final = 0.2
"""How often it looks for something to write, seconds."""
RETRY_S: Final = 2.0
"""How long it waits after Redis did not answer, seconds."""
TELL_S: Final = 2.0
"""How often it tells of the worker, and looks after bounds, seconds."""
DRAIN_S: Final = 1.0
"""How long it may take to write what waits when partitions are revoked, or the worker stops, seconds."""
GONE_S: Final = 30
"""After how long without a word a worker is taken for gone, seconds."""
KEPT: Final = ("steps", "detections", "decisions", "charges", "taken", "moved")
"""Of an outcome, what is told."""


class _Applied(NamedTuple):
    """A message that waits."""

    source: str
    partition: int
    offset: int
    at_ms: int
    outcomes: tuple[Outcome | ScopeOutcome, ...]
    mode: Mode
    calls: int


class Feed:
    """Writes into Redis.

    Args:
        link: where to.
        kept_s: how long a session is shown after its last call, seconds.
        tell: what the worker says of itself: `worker` (its name) and all that is counted.
    """

    def __init__(self, link: RedisLink, kept_s: float, tell: Callable[[], dict[str, Any]] = dict) -> None:
        self._link, self._writer, self._tells = link, RedisWriter(link, kept_s), tell
        self._messages: deque[_Applied] = deque()
        self._waiting_calls = 0
        self._latest: OrderedDict[tuple[str, str], Latest] = OrderedDict()
        self._seen: set[int] = set()
        """Partitions that were written."""
        self.counts: Counter[str] = Counter()
        """`shown_messages`, `dropped_messages`, `dropped_rows`."""
        self.away = False
        """Redis did not answer the last time."""

    def applied(self, message: Any, outcome: Outcome, mode: Mode) -> None:
        """Keep it until it is written."""
        kept = {name: found for name in KEPT if (found := getattr(outcome, name))}
        if kept:  # without the states, which others may have to let go
            self._add(_Applied("calls", *_place(message), (Outcome(**kept),), mode, 1 + len(outcome.steps)))

    def combined(self, message: Any, outcomes: Iterable[ScopeOutcome], mode: Mode) -> None:
        """Keep it until it is written."""
        found = tuple(ScopeOutcome(o.detections, o.decisions) for o in outcomes if o.detections or o.decisions)
        if found:
            self._add(_Applied("charges", *_place(message), found, mode, 1))

    def _add(self, applied: _Applied) -> None:
        self._messages.append(applied)
        self._waiting_calls += applied.calls
        while self._waiting_calls > MAX_CALLS and len(self._messages) > 1:
            self._waiting_calls -= self._messages.popleft().calls
            self.counts["dropped_messages"] += 1

    def stored(self, name: str, state: Any, value: bytes, partition: int) -> None:
        """Keep the latest until it is written."""
        of_session = isinstance(state, SessionState)
        row = row_of(state) if of_session else None
        shown = not of_session or state.calls or state.tools or state.ways is None
        snapshot = value[HEADER_BYTES:] if shown else b""
        self._put("sessions" if of_session else "scopes", name, Latest(partition, snapshot, state.last_ns, row))

    def forgotten(self, state: str, name: str, partition: int) -> None:
        """Keep that until it is written."""
        self._put(state, name, Latest(partition, b""))

    def _put(self, what: str, name: str, latest: Latest) -> None:
        self._latest.pop((what, name), None)
        self._latest[what, name] = latest
        if len(self._latest) > MAX_LATEST:
            self._latest.popitem(last=False)
            self.counts["dropped_rows"] += 1

    def forget(self) -> None:
        """Partitions were revoked: others tell of them from now on."""
        self._messages.clear()
        self._latest.clear()
        self._seen.clear()
        self._waiting_calls = 0

    async def run(self) -> None:
        """Write, until it is cancelled."""
        loop, told = asyncio.get_running_loop(), 0.0
        while True:
            try:
                if loop.time() - told >= TELL_S:
                    told = loop.time()
                    await self._tell()
                await self._some()
                self.away = False
                await asyncio.sleep(0 if self.waiting else PAUSE_S)
            except UnavailableError as error:
                if not self.away:
                    log.warning("%s; what people are shown is behind until it is back", error)
                self.away = True
                await asyncio.sleep(RETRY_S)

    async def flush(self) -> None:
        """Write all that waits.

        Raises:
            UnavailableError: Redis does not answer; it waits still.
        """
        while self.waiting:
            await self._some()

    @property
    def waiting(self) -> int:
        """Messages and names that are not written yet."""
        return len(self._messages) + len(self._latest)

    async def _some(self) -> None:
        await self._some_messages()
        await self._some_latest()

    async def _some_messages(self) -> None:
        some: list[_Applied] = []
        calls = 0
        for message in self._messages:
            some.append(message)
            calls += message.calls
            if calls >= CALLS_AT_ONCE:
                break
        if not some:
            return
        commands = [self._writer.message(m.partition, m.source, m.offset, m.at_ms, _facts(m)) for m in some]
        self._refused(await self._writer.send(commands))
        self.counts["shown_messages"] += len(some)
        self._seen.update(m.partition for m in some)
        for message in some:  # what was dropped meanwhile is gone already
            if self._messages and self._messages[0] is message:
                self._waiting_calls -= self._messages.popleft().calls

    async def _some_latest(self) -> None:
        some = [(at, self._latest[at]) for at in islice(self._latest, AT_ONCE)]
        if not some:
            return
        commands: list[Command] = []
        for (what, name), latest in some:
            commands += (self._writer.session if what == "sessions" else self._writer.scope)(name, latest)
        changed = [name for (what, name), _ in some if what == "sessions"]
        if changed:
            commands.append(self._writer.changed(changed))
        self._refused(await self._writer.send(commands))
        self._seen.update(latest.partition for _, latest in some)
        for at, latest in some:
            if self._latest.get(at) is latest:
                del self._latest[at]

    def _refused(self, answers: list[Any]) -> None:
        failed = [answer for answer in answers if isinstance(answer, Exception)]
        if failed:
            self.counts["refused_writes"] += len(failed)
            if self.counts["refused_writes"] == len(failed):
                log.error("Redis refuses what people are to be shown: %s", failed[0])

    async def _tell(self) -> None:
        """Tell of this worker, and keep the lists within their bounds."""
        found = self._tells()
        told = orjson.dumps({**found, "shown": {**self.counts, "waiting": self.waiting}})
        workers = self._link.shared("workers")
        mine = self._link.shared(f"worker:{found.get('worker', '')}")
        await self._writer.send(
            [("SET", mine, told, "EX", GONE_S), ("SADD", workers, mine), ("EXPIRE", workers, 86_400)]
        )
        await self._writer.send([*self._writer.bounds(self._seen, KINDS, int(found.get("at_ns", 0)))])

    async def drain(self) -> None:
        """Write what waits, for a while."""
        try:
            async with asyncio.timeout(DRAIN_S):
                if not self.away:
                    await self.flush()
        except (TimeoutError, UnavailableError) as error:
            log.warning("not all was written that people are shown: %s", str(error) or "out of time")

    async def close(self) -> None:
        """Let the connections go."""
        with suppress(Exception):  # whatever is the matter with them, they are gone with the process
            await self._link.close()


def _place(message: Any) -> tuple[int, int, int]:
    """Partition, offset, and when it was sent, milliseconds since the Unix epoch."""
    return message.partition, message.offset, int((message.timestamp or 0) * 1000)


def _facts(message: _Applied) -> Facts:
    facts = Facts()
    for outcome in message.outcomes:
        if isinstance(outcome, ScopeOutcome):
            scope_facts(outcome, message.mode, facts)
        else:
            facts = facts_of(outcome, message.mode)
    return facts
