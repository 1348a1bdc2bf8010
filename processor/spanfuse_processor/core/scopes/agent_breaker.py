"""agent.breaker: so many sessions of one agent were stopped within a window that the agent itself is at fault.

A count alone would stop every large fleet sooner or later, and a share alone every small one: both have to be reached. A
session that left its loop, or whose probe made progress, counts no more.
"""

from __future__ import annotations

from spanfuse_processor.core.finding import Finding, action_of
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_schemas import Charge, Evidence, Rules


def detect(state: ScopeState, charge: Charge, rules: Rules) -> Finding | None:
    """Note who is at work and who was stopped, and compare."""
    rule = rules.agent_breaker
    since_ns = state.last_ns - int(rule.window_s * 1e9)
    state.active.forget(since_ns)
    state.tripped.forget(since_ns)
    if charge.at_ns > since_ns:
        state.active.add(charge.members, state.last_ns)
        state.tripped.add(charge.tripped, state.last_ns)
    state.tripped.remove(charge.recovered)
    count = state.tripped.count
    if rule.mode == "off" or not charge.tripped or count < rule.sessions:
        return None
    active = max(state.active.count, count)
    if count < rule.share * active:
        return None
    return Finding(
        rule="agent.breaker",
        mode=rule.mode,
        action=action_of(rule.mode),
        message=f"{count} of the {active} sessions of agent `{state.name}` that were at work within {rule.window_s:g} s were "
        "stopped. Look for what they have in common: a tool that is down, a prompt that was changed.",
        evidence=Evidence(
            count=count, threshold=rule.sessions, value=count, unit="sessions", since_ns=since_ns,
            cost_nano_usd=charge.cost_nano_usd,
        ),
    )  # fmt: skip
