"""stagnation: the agent goes on, and next to nothing it does or sees is new.

It catches what no rule on a fixed pattern does: a few steps taken again and again in any order. A step is new if no step
among those remembered was equal to it. One whose observation only says what the action said (`echo "done"`) is none; a few
of those in a row are enough.
"""

from __future__ import annotations

from spanfuse_processor.core.finding import Finding, action_of, evidence, gently
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.steps import Step
from spanfuse_processor.core.turn import Turn
from spanfuse_schemas.policy import Stagnation


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Judge the last steps, when the newest is not a new one."""
    step = turn.step
    if step is None or step.kind == "prompt" or (step.novel and not step.echo):
        return None
    rule = turn.rules.stagnation
    if rule.mode == "off":
        return None
    if step.echo:
        found = _echoes(session, turn, rule)
        if found:
            return found
    ring = session.steps.ring
    if len(ring) < rule.window:
        return None
    recent = ring[-rule.window :]
    share = sum(s.novel and not s.echo for s in recent) / rule.window
    if share >= rule.nudge_below:
        return None
    block = share < rule.block_below
    message = (
        f"Of the last {rule.window} steps only {share:.0%} did or saw anything new. Step back: say what is missing, and "
        "take another way, or finish with what is known."
    )
    threshold = rule.block_below if block else rule.nudge_below
    return _finding(
        session, turn, rule, recent[0], message, block=block, threshold=threshold, value=share, unit="share"
    )


def _echoes(session: SessionState, turn: Turn, rule: Stagnation) -> Finding | None:
    row: list[Step] = []
    for step in reversed(session.steps.ring):
        if not step.echo:
            break
        row.append(step)
    block = len(row) >= rule.echoes
    if not block and len(row) < rule.echoes - 2:
        return None
    message = f"{len(row)} actions in a row brought nothing but their own words. Do something, or finish."
    return _finding(
        session, turn, rule, row[-1], message, block=block, threshold=rule.echoes, value=len(row), unit="repeats"
    )


def _finding(
    session: SessionState,
    turn: Turn,
    rule: Stagnation,
    first: Step,
    message: str,
    *,
    block: bool,
    threshold: float,
    value: float,
    unit: str,
) -> Finding:
    action = action_of(rule.mode)
    return Finding(
        rule="stagnation",
        mode=rule.mode,
        action=action if block else gently(action),
        message=message,
        evidence=evidence(
            session,
            turn.call,
            first.begun,
            count=rule.window if unit == "share" else int(value),
            threshold=threshold,
            value=value,
            unit=unit,
        ),
    )
