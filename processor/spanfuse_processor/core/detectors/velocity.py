"""velocity: model calls per minute against the session's own baseline.

The rate is a sliding minute made of this clock minute and what remains of the last one. The baseline is the median of the
last closed minutes that had calls: idle minutes do not lower it, and a burst does not raise it. Calls that overlap are one
round, whether siblings of one parent or sub-agents at work side by side: what is compared is how fast decisions follow one
another. The ceiling counts calls, of which only the parallel siblings of one parent are one.
"""

from __future__ import annotations

from typing import Final

from spanfuse_processor.core.finding import Finding, action_of, evidence
from spanfuse_processor.core.overlap import began_before
from spanfuse_processor.core.pace import MINUTE_NS, Velocity, rest, roll
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.turn import Turn
from spanfuse_schemas import Call
from spanfuse_schemas.pace_rules import Velocity as Settings

MAX_PARENTS: Final = 4
"""Parents whose siblings are told apart at a time."""


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Count the call, and compare the rate."""
    call, rule = turn.call, turn.rules.velocity
    if call.kind != "llm" or call.operation == "embeddings":
        return None
    pace = session.velocity
    if pace is None:
        pace = session.velocity = Velocity()
    if not _count(pace, call, rule) or pace.calls + pace.calls_before < rule.floor_per_min:
        return None
    left = rest(call.end_ns)
    rate, limit = pace.calls + pace.calls_before * left, float(rule.ceiling_per_min)
    if rate < limit:
        if not pace.usual:
            return None
        rate = pace.now + pace.before * left
        limit = max(rule.factor * pace.usual, rule.floor_per_min)
        if rate < limit:
            return None
    return Finding(
        rule="velocity",
        mode=rule.mode,
        action=action_of(rule.mode),
        message=f"The session makes {rate:.0f} model calls a minute; its limit is {limit:.0f}. Slow down.",
        evidence=evidence(
            session, call, (0, call.end_ns - MINUTE_NS, session.cost_nano_usd), count=pace.now, threshold=limit, value=rate,
            unit="calls/min",
        ),
    )  # fmt: skip


def _count(pace: Velocity, call: Call, rule: Settings) -> bool:
    """Count the call; whether it was a new one of this minute."""
    minute = call.end_ns // MINUTE_NS
    if minute != pace.minute:
        gone = roll(pace, minute, rule.factor, rule.floor_per_min)
        if gone < 0:
            return False  # out of order by a little, or its clock is wrong
        pace.calls_before, pace.calls = (pace.calls if gone == 1 else 0), 0
    opens = not began_before(call, pace.round_ns)
    if opens:
        pace.round_ns = call.end_ns
        pace.now += 1
    alone = _alone(pace, call, opens)
    pace.calls += alone
    return alone


def _alone(pace: Velocity, call: Call, opens: bool) -> bool:
    """Whether no call of the same parent that overlaps with this one was counted; what opens a round is no sibling."""
    parent, parents = call.parent_span_id, pace.parents
    if not parent:
        return True
    if not opens and began_before(call, parents.get(parent, 0)):
        return False
    if parent not in parents and len(parents) >= MAX_PARENTS:
        del parents[next(iter(parents))]
    parents[parent] = call.end_ns
    return True
