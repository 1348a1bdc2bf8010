"""The embedded host, as operators see it: the console behind its API."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from spanfuse_processor.api.console import DryRun, Explanation, OverlayNotice
from spanfuse_processor.config.overlay import Overlay
from spanfuse_processor.core.budgets import Ordered
from spanfuse_processor.errors import SpanfuseError
from spanfuse_processor.exporters.hub import Listener
from spanfuse_processor.exporters.readmodel.model import ReadModel, SessionRow
from spanfuse_processor.hosts.console_reads import ConsoleReads
from spanfuse_processor.hosts.dry_run import compare
from spanfuse_processor.hosts.explained import explained, related
from spanfuse_schemas import BudgetOrder, Decision, PolicyNotice

if TYPE_CHECKING:
    from spanfuse_processor.hosts.embedded import EmbeddedHost
    from spanfuse_processor.hosts.engine import Engine

MAX_UNKNOWN_MODELS: Final = 20
"""Unknown models named in the status, those with most calls first."""


class EmbeddedConsole(ConsoleReads):
    """See `api.console.Console`.

    Args:
        host: the running host.
    """

    def __init__(self, host: EmbeddedHost) -> None:
        self._host = host
        self._trying = asyncio.Lock()

    @property
    def _engine(self) -> Engine:
        return self._host.engine

    @property
    def ready(self) -> bool:
        """Spans are taken."""
        return self._host.ready

    @property
    def live(self) -> bool:
        """What it does from time to time goes on."""
        return self._host.live

    @property
    def policy(self) -> PolicyNotice:
        """The policy in force."""
        return self._host.policy

    @property
    def _rows(self) -> ReadModel:
        return self._engine.work.store.shown

    async def status(self) -> dict[str, Any]:
        """Version, mode, ports and counts."""
        host, engine, now_ns = self._host, self._engine, time.time_ns()
        breakers = engine.work.board.breakers(now_ns)
        here = {"untold_decisions": engine.work.board.untold, "dropped_streams": host.hub.dropped}
        return {
            "host": "embedded",
            "version": version("spanfuse"),
            "mode": host.config.service.mode,
            "policy_epoch": host.policy.epoch,
            "uptime_s": round(time.monotonic() - host.started, 3),
            "ports": {"otlp_http": host.http_port, "otlp_grpc": host.grpc_port, "api": host.api_port},
            "storage": host.config.extensions.storage.path or "memory",
            "sessions": engine.work.store.sessions(),
            "live_sessions": len(engine.work.sessions),
            "open_breakers": breakers["open"],
            "half_open_breakers": breakers["half_open"],
            "streams": len(host.hub),
            "counts": engine.work.counters.as_dict() | here,
            "guards": engine.views.guards(now_ns),
            "exporters": host.exporting(),
            **({"ledger": host.ledger.link.comparison.as_dict()} if host.ledger is not None else {}),
            "unknown_models": dict(Counter(dict(engine.prices.unknown_models)).most_common(MAX_UNKNOWN_MODELS)),
        }

    def decisions(self) -> list[Decision]:
        """What stands at present."""
        return self._engine.work.board.shown(time.time_ns())

    async def agents(self) -> list[dict[str, Any]]:
        """What each agent came to."""
        return await self._engine.views.agents()

    async def models(self) -> list[dict[str, Any]]:
        """What each model came to."""
        return await self._engine.views.models()

    async def _explained(self, key: str, row: SessionRow | None) -> Explanation:
        work, (kind, _, name) = self._engine.work, key.partition(":")
        scopes = {scope: work.scopes.known(scope) for scope in related(key, row)}
        state = work.sessions.known(name) if kind == "session" else None
        found = explained(key, state, row, scopes, work.pipeline, work.stage, time.time_ns())
        return found.model_copy(update={"policy_epoch": self.policy.epoch})

    async def _accounts(self, session: str) -> list[dict[str, Any]]:
        return self._engine.views.accounts(f"session:{session}", time.time_ns())

    async def budgets(self, scope: str = "") -> list[dict[str, Any]]:
        """The accounts of one scope, or of all, in the periods that run; with what is held, where the ledger knows."""
        views, now_ns = self._engine.views, time.time_ns()
        rows = views.accounts(scope, now_ns) if scope else await views.budgets(now_ns)
        ledger = self._host.ledger
        return await asyncio.to_thread(ledger.link.with_holds, rows) if ledger is not None else rows

    async def order(self, order: BudgetOrder) -> Ordered:
        """Do what an operator has ordered about a budget, here and in the ledger, which goes first: it can be away. It is of
        now, whatever the operator's clock says, so that both find it in the same period."""
        order = order.model_copy(update={"at_ns": time.time_ns()})
        if self._host.ledger is not None:
            await asyncio.to_thread(self._host.ledger.link.order, order)
        return self._engine.operator.order(order)

    async def audit(self, limit: int) -> list[bytes]:
        """What became of operators' last orders about budgets."""
        return self._engine.work.store.audit(limit)

    async def rebuild(self) -> int:
        """Set the ledger's books to what the spans tell."""
        if self._host.ledger is None:
            raise SpanfuseError("extensions.ledger is not set")
        return await asyncio.to_thread(self._host.ledger.link.rebuild, await self._engine.views.budgets(time.time_ns()))

    async def reset(self, key: str, actor: str) -> Decision | None:
        """Close a breaker."""
        return self._engine.operator.reset(key, actor, time.time_ns())

    async def overlay(self) -> OverlayNotice | None:
        """What was laid over the configuration file last."""
        return self._host.overlay()

    async def put_policy(self, overlay: Overlay, actor: str, reason: str) -> PolicyNotice:
        """Lay sections over the configuration file."""
        return await self._host.lay_over(overlay, actor, reason)

    async def dry_run(self, overlay: Overlay, since_ns: int) -> DryRun:
        """What another policy would change about recent calls; one such at a time."""
        if self._trying.locked():
            raise SpanfuseError("another dry run is under way; wait for it")
        async with self._trying:
            recent = self._engine.work.store.recent
            calls, complete = recent.since(since_ns), 0 < recent.reach_ns() <= since_ns
            old, new = self.policy.policy, overlay.over(self._host.file).policy()
            return await asyncio.to_thread(lambda: compare(old, new, calls, complete=complete or not since_ns))

    def follow(self) -> tuple[Iterable[bytes], Listener]:
        """What stands at present, and a listener for what changes: what Guards hear."""
        return self._engine.work.board.follow()

    def events(self, last_id: str = "") -> tuple[Iterable[bytes], Listener]:
        """All that happens, from behind an event on."""
        return self._engine.work.events.follow(last_id)
