"""fanout: agents and sessions multiply within one trace, faster than anyone could stop them by hand.

Whoever is at work in the trace is counted once, by session and agent together: sub-agents with sessions of their own, and ever
new names within one session. The names themselves are not kept, only hashes, and of many only a sample.
"""

from __future__ import annotations

from spanfuse_processor.core.finding import Finding, action_of
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_schemas import Charge, Evidence, Rules


def detect(state: ScopeState, charge: Charge, rules: Rules) -> Finding | None:
    """Note who is at work in the trace, and count."""
    rule = rules.fanout
    since_ns = state.last_ns - int(rule.window_s * 1e9)
    state.active.forget(since_ns)
    if charge.at_ns > since_ns:
        state.active.add(charge.members, state.last_ns)
    count = state.active.count
    if rule.mode == "off" or count <= rule.max_agents:
        return None
    return Finding(
        rule="fanout",
        mode=rule.mode,
        action=action_of(rule.mode),
        message=f"{count} agents are at work in one trace within {rule.window_s:g} s; {rule.max_agents} are let through. Take "
        "the tool that starts agents away from those that were started, or raise max_agents if so many are meant.",
        evidence=Evidence(
            count=count, threshold=rule.max_agents, value=count, unit="agents", trace_id=state.name, since_ns=since_ns,
            cost_nano_usd=state.cost_nano_usd,
        ),
    )  # fmt: skip
