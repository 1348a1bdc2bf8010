"""repeat.paging: a list or a file is paged through, and then once more from the start.

Each page differs from the last in one number only, which grows. That is one piece of work, however long, and no repetition.
When the number falls back and the paging begins again, with other offsets perhaps, nothing new can come of it.
"""

from __future__ import annotations

from spanfuse_processor.core.finding import Finding, action_of, evidence, gently
from spanfuse_processor.core.likeness import number_moved
from spanfuse_processor.core.session import Pages, SessionState
from spanfuse_processor.core.steps import Step
from spanfuse_processor.core.turn import Turn

MIN_PAGES = 3
"""Pages in a row that make a pass; fewer are looks at places."""


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Follow the page number, and count the passes."""
    step = turn.step
    if step is None or not step.fields:
        return None
    pages = session.pages
    moved = number_moved(pages.fields, step.fields) if pages is not None and pages.tool == step.tool else 0
    if pages is None or not moved:
        if pages is None or pages.fields != step.fields:
            session.pages = _begin(step)
        return None
    pages.fields = step.fields
    if moved > 0:
        pages.row += 1
    else:
        pages.passes += pages.row >= MIN_PAGES
        pages.row = 1
    rule = turn.rules.repeat_paging
    if pages.row < MIN_PAGES or pages.passes < 1:
        return None
    block = pages.passes >= rule.count
    return _finding(session, turn, step, pages, block=block)


def _begin(step: Step) -> Pages:
    pages = Pages()
    pages.tool, pages.fields, pages.row = step.tool, step.fields, 1
    pages.span_id, pages.since_ns, pages.spent = step.begun
    return pages


def _finding(session: SessionState, turn: Turn, step: Step, pages: Pages, *, block: bool) -> Finding:
    rule = turn.rules.repeat_paging
    action = action_of(rule.mode)
    return Finding(
        rule="repeat.paging",
        mode=rule.mode,
        action=action if block else gently(action),
        message=f"`{step.tool}` pages through the same thing for the {_ordinal(pages.passes + 1)} time. It was all seen "
        "before: use it.",
        evidence=evidence(
            session,
            turn.call,
            (pages.span_id, pages.since_ns, pages.spent),
            count=pages.passes + 1,
            threshold=rule.count + 1 if block else 2,
            unit="repeats",
            tool=step.tool,
        ),
    )


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")
