"""errors: provider failures (429, 5xx, time-outs) within a window open the breaker for its cooldown.

These are no loops: the agent asks again because nobody answered. Client errors (other 4xx) do not count.
"""

from __future__ import annotations

from spanfuse_processor.core.finding import Finding, action_of, evidence
from spanfuse_processor.core.session import MAX_ERRORS, SessionState
from spanfuse_processor.core.turn import Turn, number


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Remember a failure, and count those of the window."""
    call = turn.call
    if call.kind != "llm" or call.error_class != "provider":
        return None
    rule = turn.rules.errors
    since = call.end_ns - int(rule.window_s * 1e9)
    recent = [at for at in session.errors if at > since]
    session.errors = [*recent[-(MAX_ERRORS - 1) :], call.end_ns]
    count = len(session.errors)
    if rule.mode == "off" or count < rule.count:
        return None
    return Finding(
        rule="errors",
        mode=rule.mode,
        action=action_of(rule.mode),
        message=f"{count} calls failed at the provider within {rule.window_s:g} s ({call.error_type}). Calls are held back "
        "until one probe succeeds.",
        evidence=evidence(
            session,
            call,
            (number(call.span_id), session.errors[0], session.cost_nano_usd),
            count=count,
            threshold=rule.count,
            unit="failures",
        ),
    )
