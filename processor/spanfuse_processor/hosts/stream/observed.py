"""What a worker says of itself at a look: of its own partitions, so that the sum over workers is the whole."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from spanfuse_processor.hosts import observed
from spanfuse_processor.telemetry.catalogue import (
    COVERAGE,
    IDLE,
    LAG,
    LOST_ROWS,
    POLICY_EPOCH,
    STATE_BYTES,
    STATE_ENTRIES,
    WAITING_ROWS,
)
from spanfuse_processor.telemetry.meters import Observed, Points

if TYPE_CHECKING:
    from spanfuse_processor.hosts.stream.feed import Feed
    from spanfuse_processor.hosts.stream.host import StreamHost
    from spanfuse_processor.hosts.stream.watchdog import Watchdog
    from spanfuse_processor.hosts.stream.worker import Worker

_LOST: Final = {"messages": "dropped_messages", "rows": "dropped_rows", "writes": "refused_writes"}
"""What people are not shown → how the feed counts it."""

Stored = Sequence[tuple[bytes, tuple[bytes, int]]]


async def observe(worker: Worker) -> Observed:
    """Counts, and what is at present."""
    counts = worker.counts()
    share = counts.get("coverage", {}).get("share")
    return {
        **observed.counted(counts),
        **observed.unpriced(worker.prices.unknown_models),
        **observed.ledger(worker.ledger.link.comparison if worker.ledger is not None else None),
        **_lag(worker.watchdog),
        **await _kept(worker.host),
        **await _budgets(worker.host),
        **(_shown(worker.feed) if worker.feed is not None else {}),
        POLICY_EPOCH: {(): worker.host.policy.epoch},
        COVERAGE: {(): share} if share is not None else {},
    }


def _lag(watchdog: Watchdog) -> Observed:
    found = {(tp.topic, str(tp.partition)): of for tp, of in watchdog.lag().items()}
    return {LAG: {at: of[0] for at, of in found.items()}, IDLE: {at: of[1] for at, of in found.items()}}


def _shown(feed: Feed) -> Observed:
    lost: Points = {(kind,): feed.counts[name] for kind, name in _LOST.items()}
    return {LOST_ROWS: lost, WAITING_ROWS: {(): feed.waiting}}


async def _kept(host: StreamHost) -> Observed:
    if host.states is None:
        return {}
    sessions, scopes = host.states
    live: Points = {("live_sessions",): len(sessions), ("live_scopes",): len(scopes)}
    found = await asyncio.to_thread(_sizes, sessions.stored(), scopes.stored())
    return {**found, STATE_ENTRIES: {**found[STATE_ENTRIES], **live}}


def _sizes(sessions: Stored, scopes: Stored) -> Observed:
    entries: Counter[tuple[str, ...]] = Counter(
        (key.partition(b":")[0].decode("utf-8", "replace"),) for key, _ in scopes
    )
    return {
        STATE_ENTRIES: {("session",): len(sessions), **entries},
        STATE_BYTES: {(kind,): _bytes(of) for kind, of in (("sessions", sessions), ("scopes", scopes))},
    }


def _bytes(stored: Stored) -> int:
    return sum(len(value) for _, (value, _) in stored)


async def _budgets(host: StreamHost) -> Observed:
    if host.states is None:
        return {}
    _, scopes = host.states
    return await observed.budgets_of(host.policy.policy, scopes.latest, host.accounts)
