"""budget.session: the money one session may spend. The call that crosses the limit is the last one."""

from __future__ import annotations

from spanfuse_processor.core.finding import Finding, action_of, evidence
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.turn import Turn

NANO = 10**9


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Compare what was spent with the limit."""
    call = turn.call
    rule = turn.rules.budget_session
    if rule.limit_usd is None or rule.mode == "off" or session.cost_nano_usd < round(rule.limit_usd * NANO):
        return None
    spent = session.cost_nano_usd / NANO
    return Finding(
        rule="budget.session",
        mode=rule.mode,
        action=action_of(rule.mode),
        message=f"The session has spent ${spent:.4f} of its budget of ${rule.limit_usd:.4f}. Finish with what is known.",
        evidence=evidence(
            session,
            call,
            (0, session.first_ns, 0),
            count=session.calls,
            threshold=rule.limit_usd,
            value=spent,
            unit="USD",
        ),
        until="reset",
    )
