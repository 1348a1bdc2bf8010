"""The core's second stage: microseconds a charge, with and without budgets; bytes a user with budgets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from bench.report import Figure
from spanfuse_processor.core.scopes.stage import ScopeStage
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_schemas import Budget, Charge, Policy
from spanfuse_schemas.periods import PeriodName

_COUNT: Final = 20_000
_START_NS: Final = 1_750_000_000 * 10**9


def _policy(*periods: PeriodName) -> Policy:
    budgets = (Budget(name=f"user/{period}", scope="user", limit_usd=1e6, period=period) for period in periods)
    return Policy(mode="enforce", budgets=tuple(budgets))


def _charges(scope: str) -> list[Charge]:
    """One a second."""
    return [
        Charge(
            scope=scope, source="spanfuse.calls-3", offset=i, cost_nano_usd=1_000, calls=1, input_tokens=5,
            at_ns=_START_NS + i * 10**9, started_ns=_START_NS + i * 10**9,
        )
        for i in range(_COUNT)
    ]  # fmt: skip


def _each(policy: Policy, scope: str) -> tuple[float, ScopeState]:
    """Microseconds a charge, the best of three, and the state in the end."""
    best, state = float("inf"), ScopeState(scope)
    for _ in range(3):
        stage, state, charges = ScopeStage(policy), ScopeState(scope), _charges(scope)
        start = time.process_time()
        stage.process(charges, {scope: state}.get)
        best = min(best, (time.process_time() - start) / _COUNT * 1e6)
    return best, state


def run() -> Iterator[Figure]:
    """All figures of the second stage."""
    bare, _ = _each(Policy(), "team:t")
    yield Figure("charge of a team without a budget", bare, "us/charge")
    versus = "a charge without a budget"
    unread, _ = _each(Policy(), "user:u")
    yield Figure("charge of a user without a budget", unread, "us/charge", bare, versus)
    for periods in (("daily",), ("daily", "monthly", "total")):
        cost, state = _each(_policy(*periods), "user:u-123456")
        name = f"{len(periods)} budget{'s' if len(periods) > 1 else ''}"
        yield Figure(f"charge of a user with {name}", cost, "us/charge", bare, versus)
        yield Figure(f"state of a user with {name}", len(state.snapshot()), "bytes")
