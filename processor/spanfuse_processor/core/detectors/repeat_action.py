"""repeat.action: the same action in a row with observations that differ, as in polling and paging.

Something comes back each time, so it may well be progress: the agent is nudged first, and blocked only much later.
"""

from __future__ import annotations

from spanfuse_processor.core.finding import Finding, action_of, any_result_of, evidence, gently
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.steps import Step
from spanfuse_processor.core.turn import Turn


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Count the steps at the end that share this one's action."""
    step, call = turn.step, turn.call
    if step is None or step.kind == "prompt" or not step.action:
        return None
    rule = turn.rules.repeat_action
    if rule.mode == "off":
        return None
    actions = session.steps.actions
    if len(actions) < rule.nudge_at or actions[-rule.nudge_at] != step.action:
        return None  # cheap way out of nearly every call
    run = session.steps.run(min_interval_s=rule.min_interval_s)
    if len(run) < rule.nudge_at:
        return None
    action = action_of(rule.mode)
    block = action == "block" and len(run) >= rule.count
    what = f"`{step.tool}` was called" if step.tool else "The same action was taken"
    return Finding(
        rule="repeat.action",
        mode=rule.mode,
        action=action if block else gently(action),
        message=f"{what} {len(run)} times in a row with the same arguments, {_brought(run)}. If you are waiting, wait longer "
        "between calls; if not, use what came back.",
        evidence=evidence(
            session,
            call,
            run[0].begun,
            count=len(run),
            threshold=rule.count if block else rule.nudge_at,
            unit="repeats",
            tool=step.tool,
        ),
        loop=any_result_of(step),
    )


def _brought(run: list[Step]) -> str:
    known = any(step.observation for step in run)
    return "each time with another result" if known else "and what it brought is not recorded"
