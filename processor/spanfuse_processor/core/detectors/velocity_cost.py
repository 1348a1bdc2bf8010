"""velocity.cost: money per minute against the session's own baseline.

As `velocity`, with nano-dollars for calls. Every call counts: parallel siblings are one decision, but each is paid.
"""

from __future__ import annotations

from spanfuse_processor.core.finding import Finding, action_of, evidence
from spanfuse_processor.core.pace import MINUTE_NS, Minutes, rest, roll
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.turn import Turn

NANO = 10**9


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Add what the call cost, and compare the rate."""
    call, rule = turn.call, turn.rules.velocity_cost
    cost = call.cost_nano_usd
    if not cost or call.kind != "llm":
        return None
    pace = session.velocity_cost
    if pace is None:
        pace = session.velocity_cost = Minutes()
    minute = call.end_ns // MINUTE_NS
    if minute != pace.minute:
        gone = roll(pace, minute, rule.factor, rule.floor_usd_per_min * NANO)
        if gone < 0:
            pace.before += cost if gone == -1 else 0  # out of order by a little, or its clock is wrong
            return None
    pace.now += cost
    floor = rule.floor_usd_per_min * NANO
    if pace.now + pace.before < floor:
        return None
    rate = pace.now + pace.before * rest(call.end_ns)
    limit = rule.ceiling_usd_per_min * NANO
    if pace.usual:
        limit = min(limit, max(rule.factor * pace.usual, floor))
    if rate < limit:
        return None
    return Finding(
        rule="velocity.cost",
        mode=rule.mode,
        action=action_of(rule.mode),
        message=f"The session spends ${rate / NANO:.2f} a minute; its limit is ${limit / NANO:.2f}. Slow down, or finish "
        "with what is known.",
        evidence=evidence(
            session, call, (0, call.end_ns - MINUTE_NS, session.cost_nano_usd - round(rate)), count=session.calls,
            threshold=limit / NANO, value=rate / NANO, unit="USD/min",
        ),
    )  # fmt: skip
