"""The circuit breaker of a session: closed → open → half-open → closed, or open again for twice as long.

It is half-open once an open decision has expired: a Guard then lets one probe through, and the probe's span, which started
after the expiry, decides. What limits and budgets hold back stays open until a reset.
"""

from __future__ import annotations

from typing import Final, Literal

from spanfuse_processor.core.finding import Finding
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.turn import Turn, hexed
from spanfuse_schemas import Call, Decision, LoopPrint
from spanfuse_schemas.policy import Breaker

MAX_LOOP: Final = 24
"""Inputs by which a loop is recognised, at most."""

Mode = Literal["observe", "enforce"]


def judge(session: SessionState, turn: Turn, findings: list[Finding], mode: Mode) -> Decision | None:
    """What this call changes about the breaker; none if nothing."""
    current, settings = session.decision, turn.rules.breaker
    blocks = [f for f in findings if f.action == "block" and f.mode != "shadow"]
    if current is not None and current.action == "block":
        if _is_probe(current, turn.call):
            return _probed(session, turn, current, blocks, settings, mode)
        if current.conditional and not blocks and turn.call.kind == "llm" and not turn.call.error_type:
            return close(session, turn.call.end_ns, "The agent left the loop.", mode)
    if blocks:
        return _open(session, turn.call, max(blocks, key=_weight), settings, mode)
    nudge = next((f for f in findings if f.action == "nudge" and f.mode != "shadow"), None)
    if nudge is not None and (current is None or _over(current, turn.call.end_ns)):
        return _decide(session, turn.call, nudge, settings, mode, action="nudge")
    return None


def close(session: SessionState, at_ns: int, message: str, mode: Mode) -> Decision:
    """Close the breaker, and let the rule that had opened it speak again."""
    current = session.decision
    if current is not None:
        session.fired = {k: v for k, v in session.fired.items() if not k.startswith(f"{current.rule}:")}
    key = f"session:{session.key}"
    rule = current.rule if current else ""
    session.epoch += 1
    session.decision = None
    return Decision(
        key=key, state="closed", mode=mode, rule=rule, message=message, issued_at_ns=at_ns, epoch=session.epoch
    )


def _over(decision: Decision, now_ns: int) -> bool:
    return decision.expires_at_ns is not None and decision.expires_at_ns <= now_ns


def _is_probe(current: Decision, call: Call) -> bool:
    return call.kind == "llm" and not current.conditional and _over(current, call.start_ns)


def _probed(
    session: SessionState, turn: Turn, current: Decision, blocks: list[Finding], settings: Breaker, mode: Mode
) -> Decision | None:
    verdict = _verdict(turn, current, blocks)
    if verdict == "unknown":
        return None
    if verdict == "good":
        session.steps.clear()
        session.prompts.clear()
        session.lanes.clear()
        session.errors.clear()
        session.cooldown_s = 0.0
        return close(session, turn.call.end_ns, "The probe made progress.", mode)
    session.cooldown_s = min(session.cooldown_s * 2, settings.max_cooldown_s)
    session.epoch += 1
    now = turn.call.end_ns
    session.decision = current.model_copy(
        update={
            "issued_at_ns": now,
            "expires_at_ns": now + int(session.cooldown_s * 1e9),
            "epoch": session.epoch,
            "mode": mode,
        }
    )
    return session.decision


def _verdict(turn: Turn, current: Decision, blocks: list[Finding]) -> Literal["good", "bad", "unknown"]:
    call = turn.call
    if call.error_type:
        return "bad" if current.rule == "errors" and call.error_class == "provider" else "unknown"
    acts = {p.action for p in current.loop if p.action}
    if acts and turn.pending:  # the model has chosen again: its choice tells, not the input it was handed
        return "bad" if hexed(turn.pending) in acts else "good"
    repeats = bool(current.loop) and current.covers(call.input, call.answers) and call.input is not None
    return "bad" if repeats or any(not f.conditional for f in blocks) else "good"


def _weight(finding: Finding) -> int:
    if finding.until == "reset":
        return 3
    if finding.conditional:
        return 0
    return 2 if finding.scope == "all" else 1


def _weight_of(decision: Decision) -> int:
    if decision.action != "block":
        return -1
    if decision.expires_at_ns is None:
        return 3
    if decision.conditional:
        return 0
    return 2 if decision.scope_of_block == "all" else 1


def _open(session: SessionState, call: Call, finding: Finding, settings: Breaker, mode: Mode) -> Decision | None:
    current = session.decision
    weight = _weight(finding)
    loop = finding.loop
    if current is not None and not (current.conditional and _over(current, call.end_ns)):
        held = _weight_of(current)
        if weight < held or (weight == held and set(loop) <= set(current.loop)):
            return None
        if weight == held == 1:
            loop = tuple(dict.fromkeys((*current.loop, *loop)))[-MAX_LOOP:]
    return _decide(session, call, finding, settings, mode, action="block", loop=loop)


def _decide(
    session: SessionState,
    call: Call,
    finding: Finding,
    settings: Breaker,
    mode: Mode,
    *,
    action: Literal["nudge", "block"],
    loop: tuple[LoopPrint, ...] = (),
) -> Decision:
    if not session.cooldown_s:
        session.cooldown_s = settings.cooldown_s
    session.epoch += 1
    expires = None if finding.until == "reset" else call.end_ns + int(session.cooldown_s * 1e9)
    session.decision = Decision(
        key=f"session:{session.key}",
        state="open" if action == "block" else "closed",
        action=action,
        mode=mode,
        rule=finding.rule,
        message=finding.message,
        evidence=finding.evidence,
        issued_at_ns=call.end_ns,
        expires_at_ns=expires,
        epoch=session.epoch,
        scope_of_block=finding.scope if action == "block" else "all",
        loop=loop,
        max_distance=3 if any(p.near for p in loop) else 0,
        conditional=finding.conditional,
    )
    return session.decision
