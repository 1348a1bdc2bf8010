"""repeat.no_progress, near.no_progress: the same action brought the same observation, again.

A step between them that brought something new ends the row: the same "all tests pass" after each edit is work. The same
failure again is followed across such steps, more patiently, so that a failing test re-run between peeks is seen: first a
nudge, since the next edit may be the one that helps. While a cycle is growing, the cycle rule speaks.

When the model has just asked for the action once more and only the observation is missing, the finding is conditional: a
Guard refuses the next call if it brings that same observation.
"""

from __future__ import annotations

from spanfuse_processor.core.finding import Finding, any_result_of, evidence, gently, patience, prints_of
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.steps import Step, close_together, matching
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
    recent = session.steps.recent(step.agent, rule.within - foreseen)
    equal, limit = _row(recent, step, rule), rule.count
    if step.error and len(equal) + foreseen < limit:
        equal, limit = _row(recent, step, rule, across=True), rule.failures
    count = len(equal) + foreseen
    exact = sum(s.exact == step.exact for s in equal) + foreseen >= rule.count
    mode = rule.mode if exact else rules.near.mode
    if mode == "off" or count < rule.count or (foreseen and count < limit):
        return None
    if rules.cycle.mode == "block" and session.steps.cycling():
        return None
    return _finding(session, turn, step, equal, rule, limit, exact, foreseen, mode)


def _row(recent: list[Step], step: Step, rule: NoProgress, *, across: bool = False) -> list[Step]:
    """The steps equal to one: since the last that brought news, or across those."""
    equal = matching(recent, lambda s: _equal(s, step), since_progress=not across)
    return close_together(equal, rule.min_interval_s)


def _equal(a: Step, b: Step) -> bool:
    """Whether two steps are the same, or the same but for what cannot be compared: observations in a restated task."""
    return a.canon == b.canon or (a.restated and b.restated and a.action == b.action and bool(a.tool))


def _finding(
    session: SessionState,
    turn: Turn,
    step: Step,
    equal: list[Step],
    rule: NoProgress,
    limit: int,
    exact: bool,
    foreseen: int,
    mode: Mode,
) -> Finding:
    count = len(equal) + foreseen
    what = f"`{step.tool}` was called" if step.tool else "The same action was taken"
    how = "the same" if exact else "nearly the same"
    first, action = equal[0], patience(mode, rule, equal, count)
    return Finding(
        rule="repeat.no_progress" if exact else "near.no_progress",
        mode=mode,
        action=gently(action) if count < limit else action,
        message=f"{what} {count} times with {how} arguments and {how} result. Nothing new can come of it: change the "
        "approach, or finish with what is known.",
        evidence=evidence(
            session,
            turn.call,
            first.begun,
            count=count,
            threshold=min(limit, count),
            unit="repeats",
            tool=step.tool,
        ),
        loop=any_result_of(step) if step.restated else prints_of(equal),
        conditional=bool(foreseen),
    )
