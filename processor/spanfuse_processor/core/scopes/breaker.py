"""The circuit breaker of a scope: the same states as a session's (`core.breaker`), turned by charges instead of calls.

It opens for the cooldown. The first charge with a call that started after the expiry is the probe: a session that is stopped in
it, or the same finding again, opens the breaker for twice as long; a call that succeeded closes it.
"""

from __future__ import annotations

from typing import Literal

from spanfuse_processor.core.finding import Finding
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_schemas import Charge, Decision
from spanfuse_schemas.policy import Breaker

Mode = Literal["observe", "enforce"]


def judge(state: ScopeState, charge: Charge, finding: Finding | None, settings: Breaker, mode: Mode) -> Decision | None:
    """What this charge changes about the breaker."""
    current = state.decision
    asked = finding if finding is not None and finding.mode != "shadow" and finding.action != "warn" else None
    if current is not None and current.action == "block":
        return _probed(state, charge, current, asked, settings, mode) if _is_probe(current, charge) else None
    if asked is None or (current is not None and asked.action == "nudge" and not _over(current, charge.at_ns)):
        return None
    return _decide(state, charge, asked, settings, mode)


def close(state: ScopeState, at_ns: int, message: str, mode: Mode) -> Decision:
    """Close the breaker, and let the rule that had opened it speak and count anew."""
    rule = state.decision.rule if state.decision else ""
    state.fired = {k: v for k, v in state.fired.items() if not k.startswith(f"{rule}:")}
    state.epoch += 1
    state.decision = None
    return Decision(
        key=state.key, state="closed", mode=mode, rule=rule, message=message, issued_at_ns=at_ns, epoch=state.epoch
    )


def _over(decision: Decision, now_ns: int) -> bool:
    return decision.expires_at_ns is not None and decision.expires_at_ns <= now_ns


def _is_probe(current: Decision, charge: Charge) -> bool:
    return _over(current, charge.started_ns) and charge.calls > 0


def _probed(
    state: ScopeState, charge: Charge, current: Decision, asked: Finding | None, settings: Breaker, mode: Mode
) -> Decision | None:
    if charge.tripped or (asked is not None and asked.action == "block"):
        state.cooldown_s = min(state.cooldown_s * 2, settings.max_cooldown_s)
        state.epoch += 1
        state.decision = current.model_copy(
            update={
                "issued_at_ns": charge.at_ns,
                "expires_at_ns": charge.at_ns + int(state.cooldown_s * 1e9),
                "epoch": state.epoch,
                "mode": mode,
            }
        )
        return state.decision
    if charge.failures >= charge.calls:
        return None  # nobody answered: nothing is known yet
    state.tripped.clear()
    state.cooldown_s = 0.0
    return close(state, charge.at_ns, "The probe succeeded.", mode)


def _decide(state: ScopeState, charge: Charge, finding: Finding, settings: Breaker, mode: Mode) -> Decision:
    state.cooldown_s = state.cooldown_s or settings.cooldown_s
    state.epoch += 1
    block = finding.action == "block"
    state.decision = Decision(
        key=state.key,
        state="open" if block else "closed",
        action="block" if block else "nudge",
        mode=mode,
        rule=finding.rule,
        message=finding.message,
        evidence=finding.evidence,
        issued_at_ns=charge.at_ns,
        expires_at_ns=charge.at_ns + int(state.cooldown_s * 1e9),
        epoch=state.epoch,
    )
    return state.decision
