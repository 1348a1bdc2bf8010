"""budget.session: the money one session may spend. The call that crosses the limit is the last one."""

from __future__ import annotations

from dataclasses import replace

from spanfuse_processor.core.finding import Finding, action_of
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.turn import Turn
from spanfuse_schemas import Evidence
from spanfuse_schemas.detection import Mode

NANO = 10**9
NAME = "session"
"""Under which operators order about it."""


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Compare what was spent with the limit."""
    call, rule = turn.call, turn.rules.budget_session
    if rule.limit_usd is None or rule.mode == "off":
        return None
    limit = round(rule.limit_usd * NANO)
    if session.budgets is not None:
        session.budgets.clock_ns = max(session.budgets.clock_ns, call.end_ns)
        limit = session.budgets.limit_of(NAME, limit)
    if session.cost_nano_usd < limit:
        return None
    found = spent_up(session, limit, rule.mode)
    proof = found.evidence.model_copy(update={"last_span_id": call.span_id, "trace_id": call.trace_id})
    return replace(found, evidence=proof)


def spent_up(session: SessionState, limit: int, mode: Mode) -> Finding:
    """What is found of a session that has spent its limit, nano-dollars."""
    spent, most = session.cost_nano_usd / NANO, limit / NANO
    return Finding(
        rule="budget.session",
        mode=mode,
        action=action_of(mode),
        message=f"The session has spent ${spent:.4f} of its budget of ${most:.4f}. Finish with what is known.",
        evidence=Evidence(
            count=session.calls, threshold=most, value=spent, unit="USD",
            since_ns=session.first_ns, cost_nano_usd=session.cost_nano_usd,
        ),
        until="reset",
    )  # fmt: skip
