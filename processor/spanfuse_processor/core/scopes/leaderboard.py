"""What agents and models come to, side by side: calls, loops, money, and what a session usually is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from spanfuse_processor.core.scopes import coverage
from spanfuse_processor.core.scopes.adaptive import baseline
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_schemas.scope_rules import Adaptive

MAX_ROWS: Final = 500
"""Rows of a list, those that cost most."""


def models(states: Iterable[ScopeState]) -> list[dict[str, Any]]:
    """One row per model, dearest first."""
    return _sorted({"model": state.name} | _row(state) for state in states)


def agents(states: Iterable[ScopeState], settings: Adaptive) -> list[dict[str, Any]]:
    """One row per agent, dearest first, each with its baseline and the limits that follow from it.

    Args:
        settings: of `adaptive`: after how many sessions limits are recommended, and how far above the usual.
    """
    return _sorted(
        {"agent": state.name}
        | _row(state)
        | {"trips": state.trips, "usual": usual(state, settings), "coverage": coverage.row(state.coverage.last)}
        for state in states
    )


def usual(state: ScopeState, settings: Adaptive) -> dict[str, Any]:
    """What a session of the agent comes to, and the limits recommended; none while too few were seen."""
    seen = baseline(state)
    enough = seen.sessions >= settings.sessions
    return {
        "sessions": seen.sessions,
        "calls_p50": seen.calls_p50,
        "calls_p95": seen.calls_p95,
        "cost_nano_usd_p50": seen.cost_p50,
        "cost_nano_usd_p95": seen.cost_p95,
        "recommended_max_steps": round(settings.factor * seen.calls_p95) if enough else None,
        "recommended_budget_usd": round(settings.factor * seen.cost_p95 / 1e9, 4) if enough and seen.cost_p95 else None,
    }


def _row(state: ScopeState) -> dict[str, Any]:
    calls = state.calls or 1
    return {
        "calls": state.calls,
        "sessions": state.sessions,
        "loops": state.loops,
        "loops_per_1000_calls": round(1000 * state.loops / calls, 3),
        "failures": state.failures,
        "cost_nano_usd": state.cost_nano_usd,
        "cost_nano_usd_per_call": state.cost_nano_usd // calls,
        "input_tokens": state.input_tokens,
        "output_tokens": state.output_tokens,
        "last_ns": state.last_ns,
    }


def _sorted(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (-row["cost_nano_usd"], -row["calls"]))[:MAX_ROWS]
