"""The circuit breaker of a scope: the same states as a session's (`core.breaker`), turned by charges instead of calls.

It opens for the cooldown. Calls that started after the expiry are the probes: a session that is stopped in the charge of one,
or the same finding again, opens the breaker for twice as long; `breaker.probes` calls that succeeded close it.
"""

from __future__ import annotations

from spanfuse_processor.core import circuit
from spanfuse_processor.core.circuit import Mode, over
from spanfuse_processor.core.finding import Finding
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_schemas import Charge, Decision
from spanfuse_schemas.policy import Breaker


def judge(state: ScopeState, charge: Charge, finding: Finding | None, settings: Breaker, mode: Mode) -> Decision | None:
    """What this charge changes about the breaker."""
    current = state.decision
    asked = finding if finding is not None and finding.mode != "shadow" and finding.action != "warn" else None
    if current is not None and current.action == "block":
        return _probed(state, charge, current, asked, settings, mode) if _is_probe(current, charge) else None
    if asked is None or (current is not None and asked.action == "nudge" and not over(current, charge.at_ns)):
        return None
    return _decide(state, charge, asked, settings, mode)


def close(state: ScopeState, at_ns: int, message: str, mode: Mode) -> Decision:
    """Close the breaker, and let the rule that had opened it speak and count anew."""
    return circuit.close(state, state.key, at_ns, message, mode)


def _is_probe(current: Decision, charge: Charge) -> bool:
    return over(current, charge.started_ns) and charge.calls > 0


def _probed(
    state: ScopeState, charge: Charge, current: Decision, asked: Finding | None, settings: Breaker, mode: Mode
) -> Decision | None:
    if charge.tripped or (asked is not None and asked.action == "block"):
        return circuit.reopen(state, current, charge.at_ns, settings, mode)
    if charge.failures >= charge.calls:
        return None  # nobody answered: nothing is known yet
    if not circuit.passed(state, current, charge.calls - charge.failures):
        return None
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
        probes=settings.probes,
    )
    return state.decision
