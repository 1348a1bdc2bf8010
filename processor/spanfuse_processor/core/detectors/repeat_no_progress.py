"""repeat.no_progress, near.no_progress: the same action brought the same observation, again.

Equal steps count wherever they lie in the window, so that a failing test re-run between peeks is seen; while a cycle is
growing, the cycle rule speaks. When the model has just asked for the action once more and only the observation is
missing, the finding is conditional: a Guard refuses the next call if it brings that same observation.
"""

from __future__ import annotations

from spanfuse_processor.core.finding import Finding, action_of, any_result_of, evidence, prints_of
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.steps import Step
from spanfuse_processor.core.turn import Turn
from spanfuse_schemas import Rules
from spanfuse_schemas.detection import Mode
from spanfuse_schemas.policy import NoProgress


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Count the step among those of the window; else foresee the one that is under way."""
    step = turn.step
    if step is not None and session.steps.repeats and step.canon and step.kind != "prompt":
        found = _judge(session, turn, step, turn.rules, 0)
        if found:
            return found
    if turn.pending_rules is not None and turn.pending in session.steps.actions:
        last = next(s for s in reversed(session.steps.ring) if s.action == turn.pending)
        if last.kind == "turn" and last.canon:
            return _judge(session, turn, last, turn.pending_rules, 1)
    return None


def _judge(session: SessionState, turn: Turn, step: Step, rules: Rules, foreseen: int) -> Finding | None:
    rule = rules.repeat_no_progress
    if rule.mode == "off" and rules.near.mode == "off":
        return None
    if not step.restated and session.steps.count(step.canon) + foreseen < rule.count:
        return None
    recent = [s for s in session.steps.ring if s.agent == step.agent][-(rule.within - foreseen) :]
    equal = _without_progress(recent, step) if step.weak else [s for s in recent if _equal(s, step)]
    if rule.min_interval_s:
        equal = _close_together(equal, rule)
    exact = sum(s.exact == step.exact for s in equal) + foreseen >= rule.count
    mode = rule.mode if exact else rules.near.mode
    if mode == "off" or len(equal) + foreseen < rule.count:
        return None
    if rules.cycle.mode == "block" and session.steps.cycling():
        return None
    return _finding(session, turn, step, equal, rule.count, exact, foreseen, mode)


def _equal(a: Step, b: Step) -> bool:
    """Whether two steps are the same, or the same but for what cannot be compared: observations in a restated task."""
    return a.canon == b.canon or (a.restated and b.restated and a.action == b.action and bool(a.tool))


def _without_progress(recent: list[Step], step: Step) -> list[Step]:
    """The equal steps since another one brought something new: "ok" again after each edit is no loop."""
    found: list[Step] = []
    for earlier in reversed(recent):
        if _equal(earlier, step):
            found.append(earlier)
        elif earlier.novel:
            break
    return found[::-1]


def _close_together(steps: list[Step], rule: NoProgress) -> list[Step]:
    """The steps at the end of which each came sooner after the one before than the minimum interval."""
    kept = steps[-1:]
    for step in reversed(steps[:-1]):
        if kept[-1].end_ns - step.end_ns >= rule.min_interval_s * 1e9:
            break
        kept.append(step)
    return kept[::-1]


def _finding(
    session: SessionState,
    turn: Turn,
    step: Step,
    equal: list[Step],
    threshold: int,
    exact: bool,
    foreseen: int,
    mode: Mode,
) -> Finding:
    count = len(equal) + foreseen
    what = f"`{step.tool}` was called" if step.tool else "The same action was taken"
    how = "the same" if exact else "nearly the same"
    first = equal[0]
    return Finding(
        rule="repeat.no_progress" if exact else "near.no_progress",
        mode=mode,
        action=action_of(mode),
        message=f"{what} {count} times with {how} arguments and {how} result. Nothing new can come of it: change the "
        "approach, or finish with what is known.",
        evidence=evidence(
            session,
            turn.call,
            (first.span_id, first.end_ns, first.spent),
            count=count,
            threshold=threshold,
            unit="repeats",
            tool=step.tool,
        ),
        loop=any_result_of(step) if step.restated else prints_of(equal),
        conditional=bool(foreseen),
    )
