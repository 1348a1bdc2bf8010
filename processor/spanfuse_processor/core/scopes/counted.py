"""What each rule has counted of an agent, a trace, a team, or all together."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Final

from spanfuse_processor.core.counted import NANO, Counted
from spanfuse_processor.core.scopes.adaptive import baseline
from spanfuse_processor.core.scopes.retries import STEP_S
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_schemas import Rules


def _agent_breaker(state: ScopeState, rules: Rules) -> Counted:
    rule = rules.agent_breaker
    active = max(state.active.count, state.tripped.count)
    threshold = max(rule.sessions, ceil(rule.share * active))
    note = f"of the {active} sessions at work within {rule.window_s:g} s were stopped"
    return Counted(state.tripped.count, threshold, "sessions", note)


def _retries(state: ScopeState, rules: Rules) -> Counted:
    rule = rules.retries
    since = state.last_ns // (STEP_S * NANO) - ceil(rule.window_s / STEP_S)
    found = [counts for step, counts in state.failed.items() if step > since]
    calls, failures = (sum(counts[i] for counts in found) for i in (0, 1))
    note = f"of {calls} calls failed at the provider within {rule.window_s:g} s"
    return Counted(failures, max(rule.count, ceil(rule.share * calls)), "failures", note)


def _fanout(state: ScopeState, rules: Rules) -> Counted:
    rule = rules.fanout
    note = f"agents are at work in the trace within {rule.window_s:g} s; so many and one more are told of"
    return Counted(state.active.count, rule.max_agents, "agents", note)


def _adaptive(state: ScopeState, rules: Rules) -> Counted:
    seen = baseline(state).sessions
    note = "sessions have been seen; from so many on, one that is far above the usual is told of"
    return Counted(seen, rules.adaptive.sessions, "sessions", note)


def _coverage(state: ScopeState, rules: Rules) -> Counted:
    rule, (told, seen) = rules.coverage, state.coverage.last
    if told < rule.min_calls:
        return Counted(told, None, "calls", f"Guards told of {told} calls; it looks from {rule.min_calls} on")
    note = f"share of the {told} calls that Guards told of whose spans were seen; it fires below the threshold"
    return Counted(round(seen / told, 3), rule.below, "share", note, below=True)


OF_SCOPES: Final[dict[str, dict[str, Callable[[ScopeState, Rules], Counted]]]] = {
    "agent": {"agent.breaker": _agent_breaker, "retries": _retries, "adaptive": _adaptive, "coverage": _coverage},
    "trace": {"fanout": _fanout},
    "team": {"retries": _retries, "coverage": _coverage},
    "global": {"retries": _retries, "coverage": _coverage},
}
"""Kind of scope → rule → what it has counted."""
