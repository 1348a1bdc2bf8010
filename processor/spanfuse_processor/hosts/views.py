"""What people are shown of the state: accounts of budgets, agents, models, a session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from spanfuse_processor.core.scopes import coverage, leaderboard
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.errors import StateError
from spanfuse_processor.hosts.workspace import Workspace
from spanfuse_schemas.scope_rules import Coverage

MAX_LISTED: Final = 2_000
"""Agents or models looked at for a list, those last at work; on a thread, as reading so many takes 150 ms."""

ALL: Final = "global:*"
"""The scope of all together."""
MAX_REFUSED: Final = 20
"""Keys that are listed as refused, those most often."""


class Views:
    """Looks at the state.

    Args:
        work: the state.
    """

    def __init__(self, work: Workspace) -> None:
        self._work = work

    async def budgets(self, now_ns: int) -> list[dict[str, Any]]:
        """The accounts of all scopes that were at work, those last at work of each kind, and of those that budgets name."""
        budgets = self._work.pipeline.policy.budgets
        kinds = dict.fromkeys(budget.scope for budget in budgets)
        stored = [data for kind in kinds for data in self._work.store.scopes(kind, MAX_LISTED)]
        named = [f"{b.scope}:{b.match}" for b in budgets if b.is_of_one]

        def rows() -> list[dict[str, Any]]:
            found = [row for s in _restored(stored) for row in self._work.stage.accounts(s.key, s, now_ns)]
            known = {row["scope"] for row in found}
            unseen = [scope for scope in dict.fromkeys(named) if scope not in known]
            return found + [row for scope in unseen for row in self._work.stage.accounts(scope, None, now_ns)]

        return await asyncio.to_thread(rows)

    def accounts(self, scope: str, now_ns: int) -> list[dict[str, Any]]:
        """The accounts of a scope such as `user:u-7` in the periods that run, also of one that was never seen."""
        kind, _, name = scope.partition(":")
        if kind == "session":
            return self._work.pipeline.accounts(
                self._work.sessions.known(name) or self._work.sessions.fresh(name), now_ns
            )
        return self._work.stage.accounts(scope, self._work.scopes.known(scope), now_ns)

    async def agents(self) -> list[dict[str, Any]]:
        """What each agent came to, dearest first, with the limits recommended for its sessions."""
        stored, settings = self._work.store.scopes("agent", MAX_LISTED), self._work.pipeline.policy.rules.adaptive
        return await asyncio.to_thread(lambda: leaderboard.agents(_restored(stored), settings))

    def guards(self, now_ns: int) -> dict[str, Any]:
        """What Guards tell of themselves."""
        return told_by_guards(self._work.scopes.known(ALL), self._work.pipeline.policy.rules.coverage, now_ns)

    async def models(self) -> list[dict[str, Any]]:
        """What each model came to, dearest first."""
        stored = self._work.store.scopes("model", MAX_LISTED)
        return await asyncio.to_thread(lambda: leaderboard.models(_restored(stored)))


def _restored(stored: list[bytes]) -> Iterator[ScopeState]:
    for data in stored:
        with suppress(StateError):  # of another version: it starts afresh when it comes up
            yield ScopeState.restore(data)


def told_by_guards(state: ScopeState | None, rule: Coverage, now_ns: int) -> dict[str, Any]:
    """What Guards tell of themselves: calls that they let through, and how many of these were seen; which keys agents ask for
    again and again though they are blocked.

    Args:
        state: of `ALL`; none: nothing is known yet.
    """
    known = (state or ScopeState(ALL)).coverage
    often = sorted(known.refused.items(), key=lambda item: -sum(item[1][1:]))[:MAX_REFUSED]
    refused = [
        {"key": key, "rule": why, "blocked": blocked, "would_block": would} for key, (why, blocked, would) in often
    ]
    return coverage.row(known.window(now_ns, rule)) | {"reporting": known.states(now_ns, rule), "refused": refused}
