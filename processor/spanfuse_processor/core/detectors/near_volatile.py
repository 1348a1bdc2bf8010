"""near.volatile: one argument changes each time, and the result does not.

A request number, a label, a page past the last one: what changes makes no difference, so the steps are the same one. Which
field of a tool is of that kind is learned from the steps themselves: they are equal in all other fields, and what they
brought is the same and long enough to be no mere "done". A tool that does the same to one thing after the other looks like
that, too: unless the key says that it holds a label, the agent is only nudged.
"""

from __future__ import annotations

from collections import Counter

from spanfuse_processor.core.finding import Finding, evidence, gently, patience
from spanfuse_processor.core.likeness import differing_label
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.steps import Step
from spanfuse_processor.core.turn import Turn, hexed
from spanfuse_schemas import LoopPrint
from spanfuse_schemas.wording import SURELY_IDLE


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Compare the step with those of the window that brought the same."""
    step = turn.step
    if step is None or not step.fields or not session.steps.observed_again or not step.telling:
        return None
    rules = turn.rules
    near, rule = rules.near, rules.repeat_no_progress
    if near.mode == "off":
        return None
    recent = session.steps.recent(step.agent, rule.within)
    same = [s for s in recent if s.tool == step.tool and s.observation == step.observation]
    labels = Counter(label for s in same if (label := differing_label(s.fields, step.fields)))
    if not labels:
        return None
    label, _ = labels.most_common(1)[0]
    values = [s for s in same if s is step or differing_label(s.fields, step.fields) == label]
    if len({s.fields for s in values}) < near.volatile_count:
        return None
    return _finding(session, turn, step, values, sure=bool(label & SURELY_IDLE))


def _finding(session: SessionState, turn: Turn, step: Step, values: list[Step], *, sure: bool) -> Finding:
    near, first = turn.rules.near, values[0]
    action = patience(near.mode, turn.rules.repeat_no_progress, values, len(values))
    return Finding(
        rule="near.volatile",
        mode=near.mode,
        action=action if sure else gently(action),
        message=f"`{step.tool}` was called {len(values)} times with one argument changed, and the result stayed the same. "
        "Change something else, or finish with what is known.",
        evidence=evidence(
            session,
            turn.call,
            first.begun,
            count=len(values),
            threshold=near.volatile_count,
            unit="repeats",
            tool=step.tool,
        ),
        loop=() if step.kind == "tool" else (LoopPrint(canon=hexed(step.observation)),),
    )
