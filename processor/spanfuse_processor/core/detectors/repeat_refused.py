"""repeat.refused: the provider refuses one and the same request as wrong, again and again.

A request that is too long or malformed does not become right by being sent once more. Failures of the provider are another
matter, see `errors`.
"""

from __future__ import annotations

from spanfuse_processor.core.finding import Finding, action_of, evidence
from spanfuse_processor.core.session import Refusals, SessionState
from spanfuse_processor.core.turn import Turn, hexed, number
from spanfuse_schemas import LoopPrint


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Count the refusals of the same new input in a row."""
    call, row = turn.call, session.refusals
    if call.kind != "llm" or (not call.error_type and row is None):
        return None
    if not call.error_type:
        session.refusals = None
        return None
    if call.error_class != "client" or call.input is None or not call.input.canon:
        return None
    asked = number(call.input.canon)
    if row is None or row.canon != asked:
        row = session.refusals = Refusals()
        row.canon, row.span_id, row.since_ns = asked, number(call.span_id), call.end_ns
        row.spent = session.cost_nano_usd
    row.count += 1
    rule = turn.rules.repeat_refused
    if row.count < rule.count:
        return None
    return Finding(
        rule="repeat.refused",
        mode=rule.mode,
        action=action_of(rule.mode),
        message=f"The same request was refused {row.count} times ({call.error_type}). It has to change: shorten it, or correct "
        "it.",
        evidence=evidence(
            session,
            call,
            (row.span_id, row.since_ns, row.spent),
            count=row.count,
            threshold=rule.count,
            unit="failures",
        ),
        loop=(LoopPrint(canon=hexed(asked), action=call.answers.canon if call.answers else ""),),
    )
