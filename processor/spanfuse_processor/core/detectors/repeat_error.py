"""repeat.error, near.error: the same action in a row, each time a failure of the tool, whatever it said; and one tool that
fails with one message whatever it is asked, which is only worth a nudge.

Only in a row: a test that fails between edits is work. Failures of the provider are no steps at all; see `errors`.
"""

from __future__ import annotations

from itertools import takewhile

from spanfuse_processor.core.finding import Finding, action_of, any_result_of, evidence, gently, patience
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.steps import Step
from spanfuse_processor.core.turn import Turn
from spanfuse_schemas.policy import RepeatError


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Count the failures of this action at the end of the steps."""
    step, call = turn.step, turn.call
    if step is None or not step.error or not step.action:
        return None
    rules = turn.rules
    rule = rules.repeat_error
    run = session.steps.run(errors=True, min_interval_s=rule.min_interval_s)
    if len(run) < rule.count:
        return _one_message(session, turn, step, rule)
    exact = len({s.action_exact for s in run}) == 1
    mode = rule.mode if exact else rules.near.mode
    if mode == "off":
        return None
    what = f"`{step.tool}`" if step.tool else "The same action"
    how = "the same" if exact else "nearly the same"
    return Finding(
        rule="repeat.error" if exact else "near.error",
        mode=mode,
        action=patience(mode, rule, run, len(run)),
        message=f"{what} failed {len(run)} times in a row with {how} arguments. Read the error, then try something else.",
        evidence=evidence(
            session,
            call,
            run[0].begun,
            count=len(run),
            threshold=rule.count,
            unit="repeats",
            tool=step.tool,
        ),
        loop=any_result_of(step),
    )


def _one_message(session: SessionState, turn: Turn, step: Step, rule: RepeatError) -> Finding | None:
    """Failures in a row that differ in the arguments alone."""
    if not session.steps.observed_again or rule.mode == "off":
        return None
    row = list(
        takewhile(
            lambda s: s.error and (s.tool, s.observation) == (step.tool, step.observation), reversed(session.steps.ring)
        )
    )
    if len(row) < rule.one_message:
        return None
    first, what = row[-1], f"`{step.tool}`" if step.tool else "What the agent did"
    return Finding(
        rule="repeat.error",
        mode=rule.mode,
        action=gently(action_of(rule.mode)),
        message=f"{what} failed {len(row)} times in a row with one and the same message, whatever it was asked. Look at "
        "what it says before the next attempt.",
        evidence=evidence(
            session,
            turn.call,
            first.begun,
            count=len(row),
            threshold=rule.one_message,
            unit="repeats",
            tool=step.tool,
        ),
    )
