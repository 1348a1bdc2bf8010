"""safety_drift: a new user turn has little in common with the first user turn and with the one before it.

Told when an agent's conversation enters that state, and again only after a turn that was near. A turn too short to compare
says nothing, neither way.
"""

from __future__ import annotations

from typing import Final

from spanfuse_processor.core.finding import Finding, action_of, evidence
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.strayed import Strayed
from spanfuse_processor.core.turn import Turn
from spanfuse_schemas import Drift
from spanfuse_schemas.drift_rules import SafetyDrift

MAX_AGENTS: Final = 8
"""Agents of a session whose conversations are remembered as astray."""


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Measure the new user turn, where there is one."""
    call = turn.call
    seen = call.drift
    if seen is None or not seen.turn:
        return None
    rule = turn.rules.safety_drift
    if seen.turn < rule.min_turns or seen.chars < rule.min_chars:
        return None
    away = distance(seen, rule)
    if not _enters(session, call.agent, away >= rule.threshold):
        return None
    return Finding(
        rule="safety_drift",
        mode=rule.mode,
        action=action_of(rule.mode),
        message=f"User turn {seen.turn} is {away:.2f} away from what the conversation was about; drift begins at "
        f"{rule.threshold:g}. If the topic was changed on purpose, begin another session.",
        evidence=evidence(
            session,
            call,
            (int(call.span_id, 16), call.end_ns, session.cost_nano_usd - call.cost_nano_usd),
            count=seen.turn,
            threshold=rule.threshold,
            value=away,
            unit="distance",
        ),
    )


def distance(seen: Drift, rule: SafetyDrift) -> float:
    """How far the turn is from the first and the last one, 0 to 1."""
    common = rule.anchor_weight * seen.anchor + (1 - rule.anchor_weight) * seen.recent
    return max(0.0, 1 - common / 1000 / rule.full_at)


def _enters(session: SessionState, agent: str, away: bool) -> bool:
    """Whether the agent's conversation goes astray with this turn; remember that it is."""
    known = session.strayed.agents if session.strayed is not None else []
    if not away and agent not in known:
        return False
    others = [name for name in known if name != agent]
    agents = [*others[-(MAX_AGENTS - 1) :], agent] if away else others
    session.strayed = Strayed(agents) if agents else None
    return away and agent not in known
