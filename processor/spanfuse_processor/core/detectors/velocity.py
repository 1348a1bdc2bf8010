"""velocity: model calls per minute against the session's own baseline.

The rate is a sliding minute made of this clock minute and what remains of the last one. The baseline is the median of the
last closed minutes that had calls, so one burst does not raise it and idle minutes do not lower it. Parallel siblings of
one parent count once: a fan-out is one decision of the agent.
"""

from __future__ import annotations

from spanfuse_processor.core.finding import Finding, action_of, evidence
from spanfuse_processor.core.session import MAX_BASELINE, SessionState, Velocity
from spanfuse_processor.core.turn import Turn, number
from spanfuse_schemas import Call

MINUTE_NS = 60 * 10**9
MIN_BASELINE = 3
"""Closed minutes without which there is no baseline, only the ceiling."""


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Count the call, and compare the rate."""
    call = turn.call
    if call.kind != "llm":
        return None
    pace = session.velocity = session.velocity or Velocity()
    if not _count(pace, call):
        return None
    rule = turn.rules.velocity
    if rule.mode == "off" or pace.current + pace.previous < rule.floor_per_min:
        return None
    into = (call.end_ns % MINUTE_NS) / MINUTE_NS
    rate = pace.current + pace.previous * (1 - into)
    limit = float(rule.ceiling_per_min)
    if len(pace.baseline) >= MIN_BASELINE:
        limit = min(limit, max(rule.factor * _median(pace.baseline), rule.floor_per_min))
    if rate < limit:
        return None
    return Finding(
        rule="velocity",
        mode=rule.mode,
        action=action_of(rule.mode),
        message=f"The session makes {rate:.0f} model calls a minute; its limit is {limit:.0f}. Slow down.",
        evidence=evidence(
            session, call, (0, call.end_ns - MINUTE_NS, session.cost_nano_usd), count=pace.current, threshold=limit, value=rate,
            unit="calls/min",
        ),
    )  # fmt: skip


def _count(pace: Velocity, call: Call) -> bool:
    parent = number(call.parent_span_id)
    sibling = parent != 0 and parent == pace.parent and call.start_ns < pace.until_ns
    pace.parent, pace.until_ns = parent, max(pace.until_ns, call.end_ns) if sibling else call.end_ns
    minute = call.end_ns // MINUTE_NS
    if minute < pace.minute:
        return False  # its clock, or the one before it, is wrong: no rate can be told
    if minute > pace.minute:
        if pace.current:
            pace.baseline = [*pace.baseline[-(MAX_BASELINE - 1) :], pace.current]
        pace.previous = pace.current if minute == pace.minute + 1 else 0
        pace.minute, pace.current = minute, 0
    if not sibling:
        pace.current += 1
    return not sibling


def _median(values: list[int]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
