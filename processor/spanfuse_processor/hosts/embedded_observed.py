"""What the embedded host says of itself at a look."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.hosts import observed
from spanfuse_processor.telemetry.catalogue import (
    COVERAGE,
    POLICY_EPOCH,
    SESSIONS,
    STATE_BYTES,
    STATE_ENTRIES,
    STREAMS,
    Instrument,
)
from spanfuse_processor.telemetry.meters import Observed, Points

if TYPE_CHECKING:
    from spanfuse_processor.hosts.embedded import EmbeddedHost
    from spanfuse_processor.hosts.engine import Engine


async def observe(host: EmbeddedHost) -> Observed:
    """Counts, and what is at present; without what the storage would have to tell, should it be away."""
    engine, now_ns = host.engine, time.time_ns()
    work = engine.work
    standing = work.board.decisions()
    here = {"untold_decisions": work.board.untold, "dropped_streams": host.hub.dropped}
    found: dict[Instrument, Points] = {
        **observed.counted(work.counters.as_dict() | here),
        **observed.unpriced(engine.prices.unknown_models),
        **await asyncio.to_thread(observed.breakers, standing, now_ns),
        **observed.ledger(host.ledger.link.comparison if host.ledger is not None else None),
        **observed.told(host.outgoing),
        STREAMS: {(): len(host.hub)},
        POLICY_EPOCH: {(): host.policy.epoch},
    }
    for part in (_kept, _covered, _budgets):
        with suppress(UnavailableError):
            found |= await part(engine, now_ns)
    return found


async def _kept(engine: Engine, _: int) -> Observed:
    work = engine.work
    entries = work.store.entries()
    live = {"live_sessions": len(work.sessions), "live_scopes": len(work.scopes)}
    return {
        STATE_ENTRIES: {(kind,): n for kind, n in {**entries, **live}.items()},
        STATE_BYTES: {("storage",): work.store.size_bytes()},
        SESSIONS: {(): entries["session"]},
    }


async def _covered(engine: Engine, now_ns: int) -> Observed:
    share = engine.views.guards(now_ns)["share"]
    return {COVERAGE: {(): share}} if share is not None else {}


async def _budgets(engine: Engine, now_ns: int) -> Observed:
    work = engine.work
    return await observed.budgets_of(
        work.stage.policy, work.scopes.latest, lambda scope: engine.views.accounts(scope, now_ns)
    )
