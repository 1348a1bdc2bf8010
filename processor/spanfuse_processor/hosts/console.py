"""The embedded host, as operators see it: the console behind its API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from spanfuse_processor.api.console import DryRun, Explanation, OverlayNotice, SessionDetail
from spanfuse_processor.config.overlay import Overlay
from spanfuse_processor.core.budgets import Ordered
from spanfuse_processor.errors import SpanfuseError
from spanfuse_processor.exporters.hub import Listener
from spanfuse_processor.exporters.readmodel.model import (
    DetectionPage,
    DetectionQuery,
    MinuteRow,
    SeriesKind,
    SessionPage,
    SessionQuery,
    StepRow,
)
from spanfuse_processor.hosts.dry_run import compare
from spanfuse_processor.hosts.explained import explained, related
from spanfuse_schemas import BudgetOrder, Decision, PolicyNotice

if TYPE_CHECKING:
    from spanfuse_processor.hosts.embedded import EmbeddedHost


class EmbeddedConsole:
    """See `api.console.Console`.

    Args:
        host: the running host.
    """

    def __init__(self, host: EmbeddedHost) -> None:
        self._host = host
        self._trying = asyncio.Lock()

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

    async def status(self) -> dict[str, Any]:
        """Version, mode, ports and counts."""
        return {"host": "embedded", **self._host.status()}

    async def sessions(self, query: SessionQuery) -> SessionPage:
        """Sessions as they are listed."""
        return await self._host.work.store.shown.sessions(query)

    async def session(self, session: str) -> SessionDetail | None:
        """One session."""
        work, now_ns = self._host.work, time.time_ns()
        row = await work.store.shown.session(session)
        if row is None:
            return None
        accounts = self._host.views.accounts(f"session:{session}", now_ns)
        found = await self.explain(f"session:{session}")
        return SessionDetail(**row.model_dump(), decision=found.decision, budgets=tuple(accounts))

    async def timeline(self, session: str, limit: int) -> list[StepRow]:
        """The last steps of a session."""
        return await self._host.work.store.shown.timeline(session, limit)

    async def detections(self, query: DetectionQuery) -> DetectionPage:
        """What rules found."""
        return await self._host.work.store.shown.detections(query)

    def decisions(self) -> list[Decision]:
        """What stands at present."""
        return self._host.work.board.shown(time.time_ns())

    async def history(self, key: str, limit: int) -> list[Decision]:
        """What was decided about a key."""
        return await self._host.work.store.shown.history(key, limit)

    async def agents(self) -> list[dict[str, Any]]:
        """What each agent came to."""
        return await self._host.views.agents()

    async def models(self) -> list[dict[str, Any]]:
        """What each model came to."""
        return await self._host.views.models()

    async def series(self, kind: SeriesKind, name: str, minutes: int) -> list[MinuteRow]:
        """The last minutes."""
        return await self._host.work.store.shown.series(kind, name, minutes)

    async def explain(self, key: str) -> Explanation:
        """What is counted about a key, and why it did or did not trip."""
        work, (kind, _, name) = self._host.work, key.partition(":")
        of_session = kind == "session"
        row = await work.store.shown.session(name) if of_session else None
        scopes = {scope: work.scopes.known(scope) for scope in related(key, row)}
        state = work.sessions.known(name) if of_session else None
        found = explained(key, state, row, scopes, work.pipeline, work.stage, time.time_ns())
        return found.model_copy(update={"policy_epoch": self.policy.epoch})

    async def budgets(self, scope: str = "") -> list[dict[str, Any]]:
        """The accounts of one scope, or of all."""
        return await self._host.budgets(scope)

    async def order(self, order: BudgetOrder) -> Ordered:
        """Do what an operator has ordered about a budget."""
        return await self._host.order(order)

    async def audit(self, limit: int) -> list[bytes]:
        """What became of operators' last orders about budgets."""
        return self._host.work.store.audit(limit)

    async def rebuild(self) -> int:
        """Set the ledger's books to what the spans tell."""
        return await self._host.rebuild()

    async def reset(self, key: str, actor: str) -> Decision | None:
        """Close a breaker."""
        return self._host.reset(key, actor)

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
            recent = self._host.work.store.recent
            calls, complete = recent.since(since_ns), 0 < recent.reach_ns() <= since_ns
            old, new = self.policy.policy, overlay.over(self._host.file).policy()
            return await asyncio.to_thread(lambda: compare(old, new, calls, complete=complete or not since_ns))

    def follow(self) -> tuple[Iterable[bytes], Listener]:
        """What stands at present, and a listener for what changes: what Guards hear."""
        return self._host.follow()

    def events(self, last_id: str = "") -> tuple[Iterable[bytes], Listener]:
        """All that happens, from behind an event on."""
        return self._host.work.events.follow(last_id)
