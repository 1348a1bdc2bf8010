"""near.semantic: the same action under another name, and the same came of it: `delete_line(5)`, `remove_line(5)`.

Ingest gives a tool call a hash of what its words mean (`spanfuse_schemas.wording.meaning`), if it is asked to. Off by default.
"""

from __future__ import annotations

from spanfuse_processor.core.finding import Finding, evidence, patience, prints_of
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.steps import Step, close_together, matching
from spanfuse_processor.core.turn import Turn


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Count the steps of one meaning that brought the same, since the last that brought news."""
    step, near, rule = turn.step, turn.rules.near, turn.rules.repeat_no_progress
    if step is None or not step.meaning or not session.steps.observed_again or not near.semantic or near.mode == "off":
        return None
    recent = session.steps.recent(step.agent, rule.within)
    alike = close_together(matching(recent, lambda s: _alike(s, step), since_progress=True), rule.min_interval_s)
    if len(alike) < rule.count or len({s.action for s in alike}) < 2:
        return None
    return _finding(session, turn, step, alike)


def _alike(a: Step, b: Step) -> bool:
    return a.meaning == b.meaning and a.observation == b.observation != 0


def _finding(session: SessionState, turn: Turn, step: Step, alike: list[Step]) -> Finding:
    mode, rule, first = turn.rules.near.mode, turn.rules.repeat_no_progress, alike[0]
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(s.tool for s in alike))
    return Finding(
        rule="near.semantic",
        mode=mode,
        action=patience(mode, rule, alike, len(alike)),
        message=f"{names} came to the same {len(alike)} times, under one name or another. Change the approach, or finish with "
        "what is known.",
        evidence=evidence(
            session,
            turn.call,
            first.begun,
            count=len(alike),
            threshold=rule.count,
            unit="repeats",
            tool=step.tool,
        ),
        loop=prints_of(alike),
    )
