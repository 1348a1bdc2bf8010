"""errors: provider failures (429, 5xx, time-outs) within a window open the breaker for its cooldown.

These are no loops: the agent asks again because nobody answered. Client errors (other 4xx) do not count. Siblings of one
parent that were in flight together fail together, and once: a fan-out that meets a rate limit is no storm, its retries are.
"""

from __future__ import annotations

from spanfuse_processor.core.finding import Finding, action_of, evidence
from spanfuse_processor.core.overlap import began_before
from spanfuse_processor.core.pace import Failures
from spanfuse_processor.core.session import MAX_ERRORS, SessionState
from spanfuse_processor.core.turn import Turn, number
from spanfuse_schemas import Call


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Remember a failure, and count those of the window."""
    call = turn.call
    if call.kind != "llm" or call.error_class != "provider":
        return None
    if _in_flight(session, call):
        return None
    rule = turn.rules.errors
    since = call.end_ns - int(rule.window_s * 1e9)
    recent = [at for at in session.errors if at > since]
    session.errors = [*recent[-(MAX_ERRORS - 1) :], call.end_ns]
    count = len(session.errors)
    if count < rule.count:
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
            (0, session.errors[0], session.cost_nano_usd),
            count=count,
            threshold=rule.count,
            unit="failures",
        ),
    )


def _in_flight(session: SessionState, call: Call) -> bool:
    """Whether a sibling that was in flight with this call failed before it; else remember this one."""
    parent = number(call.parent_span_id)
    if not parent:
        return False
    last = session.failures
    if last is not None and last.parent == parent and began_before(call, last.end_ns):
        return True
    last = session.failures = Failures()
    last.parent, last.end_ns = parent, call.end_ns
    return False
