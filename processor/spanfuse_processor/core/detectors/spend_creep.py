"""spend.creep: calls have come to cost many times what the session's first ones did.

Each turn of a growing history costs a little more than the one before, and no rate shows it. A single dear call is none of
this: several of late must lie above the limit, net of those that do not.
"""

from __future__ import annotations

from spanfuse_processor.core.finding import Finding, action_of, evidence
from spanfuse_processor.core.pace import Creep, due, median
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.turn import Turn, number
from spanfuse_schemas import Call
from spanfuse_schemas.pace_rules import SpendCreep

NANO = 10**9


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Learn what the first calls cost, then compare."""
    call, rule = turn.call, turn.rules.spend_creep
    cost = call.cost_nano_usd
    if not cost or call.kind != "llm":
        return None
    creep = session.spend_creep
    if creep is None:
        creep = session.spend_creep = Creep()
    if not creep.median:
        creep.early.append(cost)
        if len(creep.early) >= rule.first_calls:
            creep.median, creep.early = round(median(creep.early)), []
        return None
    if cost < rule.factor * creep.median or cost < rule.floor_usd * NANO:
        if creep.above:
            creep.above -= 1
        return None
    if not creep.above:
        creep.span_id, creep.since_ns = number(call.span_id), call.start_ns
        creep.spent = session.cost_nano_usd - cost
    creep.above += 1
    return _finding(session, call, creep, rule) if due(rule.mode, creep.above, rule.count) else None


def _finding(session: SessionState, call: Call, creep: Creep, rule: SpendCreep) -> Finding:
    limit, cost = max(rule.factor * creep.median / NANO, rule.floor_usd), call.cost_nano_usd / NANO
    return Finding(
        rule="spend.creep",
        mode=rule.mode,
        action=action_of(rule.mode),
        message=f"A call costs ${cost:.3f} by now, {cost * NANO / creep.median:.0f} times what the first ones did. Compact "
        "the history, or start afresh with a summary.",
        evidence=evidence(
            session,
            call,
            (creep.span_id, creep.since_ns, creep.spent),
            count=creep.above,
            threshold=limit,
            value=cost,
            unit="USD/call",
        ),
    )
