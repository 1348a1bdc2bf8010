"""near.no_progress: the same question in other words, and nothing new came of it.

Two actions are near when the words of their arguments are (`spanfuse_schemas.wording`). That alone is no loop: an agent that
goes through a list asks in the same words each time. So what came back counts: the same observation, long enough to be no
mere "done", or a failure. Where the observation cannot be told from the task that the framework restates with it, asking
itself is all there is to judge by; as long as each asks another tool, it is a search.
"""

from __future__ import annotations

from spanfuse_processor.core.finding import Finding, evidence, patience
from spanfuse_processor.core.likeness import same_wording, says_nothing_new
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.steps import Step, close_together, matching
from spanfuse_processor.core.turn import Turn, hexed
from spanfuse_schemas import LoopPrint, Rules


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Count the step among those of the window; else foresee the one that is under way."""
    step, steps = turn.step, session.steps
    if step is not None and step.wording and (step.restated or steps.observed_again):
        found = _judge(session, turn, step, turn.rules, foreseen=False)
        if found:
            return found
    last = steps.last
    if turn.pending_rules is None or not turn.pending_wording or last is None:
        return None
    if not (last.restated or steps.observed_again):
        return None
    asked = last._replace(
        kind="turn", action=turn.pending, wording=turn.pending_wording, tool=turn.call.called[0], error=False
    )
    return _judge(session, turn, asked, turn.pending_rules, foreseen=True)


def _judge(session: SessionState, turn: Turn, step: Step, rules: Rules, *, foreseen: bool) -> Finding | None:
    rule, near = rules.repeat_no_progress, rules.near
    if near.mode == "off":
        return None
    recent = session.steps.recent(step.agent, rule.within - foreseen)
    alike = matching(recent, lambda s: _alike(s, step, near.similarity), since_progress=not step.restated)
    alike = close_together(alike, rule.min_interval_s)
    count = len(alike) + foreseen
    if count < rule.count or sum(s.tool == step.tool for s in alike) + foreseen < 2:
        return None
    others = [s for s in alike if s is not step]
    if all(s.action == step.action for s in others) or (rules.cycle.mode == "block" and session.steps.cycling()):
        return None  # the affair of repeat.no_progress, and of cycle
    if not says_nothing_new(step.wording, (s.wording for s in others)):
        return None
    return _finding(session, turn, step, alike, count, rules, foreseen=foreseen)


def _alike(a: Step, b: Step, similarity: float) -> bool:
    if not same_wording(a.wording, b.wording, similarity):
        return False
    if a.restated and b.restated:
        return True
    if a.tool != b.tool or a.observation != b.observation or not a.observation:
        return False
    return a.wording == b.wording or (a.telling and b.telling)


def _finding(
    session: SessionState, turn: Turn, step: Step, alike: list[Step], count: int, rules: Rules, *, foreseen: bool
) -> Finding:
    first, mode, rule = alike[0], rules.near.mode, rules.repeat_no_progress
    observation = "" if step.restated else hexed(step.observation)
    return Finding(
        rule="near.no_progress",
        mode=mode,
        action=patience(mode, rule, alike, count),
        message=f"`{step.tool}` was asked {count} times in nearly the same words, and nothing new came of it. Ask for "
        "something else, or finish with what is known.",
        evidence=evidence(
            session,
            turn.call,
            first.begun,
            count=count,
            threshold=rule.count,
            unit="repeats",
            tool=step.tool,
        ),
        loop=(LoopPrint(canon=observation, action=hexed(step.action), fresh=step.kind == "tool"),),
        conditional=foreseen,
    )
