"""The circuit breaker of a session: closed → open → half-open → closed, or open again for twice as long.

It is half-open once an open decision has expired: Guards then let `breaker.probes` calls through, one by default, and their
spans, which started after the expiry, decide. The first that fails opens the breaker again; it closes when as many as are let
through went well (`MaxRequests` of gobreaker, `permittedNumberOfCallsInHalfOpenState` of resilience4j). What limits and budgets
hold back stays open until a reset, or, of a budget by the hour, day, week or month, until its period is over, without a probe.
"""

from __future__ import annotations

from typing import Final, Literal

from spanfuse_processor.core import circuit
from spanfuse_processor.core.circuit import Mode, over
from spanfuse_processor.core.finding import Finding
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.turn import Turn, hexed
from spanfuse_schemas import Call, Decision, LoopPrint
from spanfuse_schemas.policy import Breaker

MAX_LOOP: Final = 24
"""Inputs by which a loop is recognised, at most."""


def judge(session: SessionState, turn: Turn, findings: list[Finding], mode: Mode) -> list[Decision]:
    """What this call changes about the breaker, in order."""
    current, settings, call = session.decision, turn.rules.breaker, turn.call
    if current is not None and current.lapses and over(current, call.end_ns):
        lapsed = close(session, call.end_ns, "Its period is over.", mode)
        return [lapsed, *judge(session, turn, findings, mode)]
    blocks = sorted((f for f in findings if f.action == "block" and f.mode != "shadow"), key=_weight, reverse=True)
    if current is not None and current.action == "block":
        if _is_probe(current, call):
            return _probed(session, turn, current, blocks, settings, mode)
        if not blocks and _leaves(session, current, call):
            return [close(session, call.end_ns, "The agent left the loop.", mode)]
    if blocks:
        return _opened(session, call, blocks[0], settings, mode)
    nudge = next((f for f in findings if f.action == "nudge" and f.mode != "shadow"), None)
    free = current is None or (current.action != "block" and over(current, call.end_ns))
    if nudge is not None and free:
        return [_decide(session, call.end_ns, call.agent, nudge, settings, mode, action="nudge")]
    return []


def close(session: SessionState, at_ns: int, message: str, mode: Mode, *, reset: bool = False) -> Decision:
    """Close the breaker, and let the rule that had opened it speak again."""
    return circuit.close(session, f"session:{session.key}", at_ns, message, mode, reset=reset)


def _is_probe(current: Decision, call: Call) -> bool:
    return call.kind == "llm" and not current.conditional and over(current, call.start_ns)


def _leaves(session: SessionState, current: Decision, call: Call) -> bool:
    """Whether this is the call that a conditional block waited for, and it did not complete the loop."""
    return current.conditional and call.kind == "llm" and not call.error_type and call.agent == session.awaited


def _probed(
    session: SessionState, turn: Turn, current: Decision, blocks: list[Finding], settings: Breaker, mode: Mode
) -> list[Decision]:
    call = turn.call
    if blocks and _weight(blocks[0]) > _weight_of(current):
        return _opened(session, call, blocks[0], settings, mode)  # worse than what the probe was about
    verdict = _verdict(turn, current, blocks)
    if verdict == "unknown":
        return []
    if verdict == "good":
        if not circuit.passed(session, current, 1):
            return []
        session.steps.clear()
        session.prompts.clear()
        session.lanes.clear()
        session.errors.clear()
        session.cooldown_s = 0.0
        return [close(session, call.end_ns, "The probe made progress.", mode)]
    return [circuit.reopen(session, current, call.end_ns, settings, mode)]


def _verdict(turn: Turn, current: Decision, blocks: list[Finding]) -> Literal["good", "bad", "unknown"]:
    """How the probe went: what the model chose tells, not the input it was handed."""
    call = turn.call
    if call.error_type:
        return "bad" if _fails_again(current, call) else "unknown"
    actions = {p.action for p in current.loop if p.action}
    if actions:
        return "bad" if hexed(turn.pending) in actions else "good"
    if current.loop:
        return "bad" if call.input is not None and current.covers(call.input, call.answers, call.spoken) else "good"
    return "bad" if any(f.rule == current.rule for f in blocks) else "good"


def _fails_again(current: Decision, call: Call) -> bool:
    """Whether a failed probe failed as the calls did that opened the breaker."""
    if current.rule == "repeat.refused":
        return call.error_class == "client" and call.input is not None and current.covers(call.input, call.answers)
    return current.rule == "errors" and call.error_class == "provider"


def _weight(finding: Finding) -> int:
    if finding.until == "reset":
        return 4
    if finding.until == "period":
        return 3
    if finding.conditional:
        return 0
    return 1 if finding.loop else 2


def _weight_of(decision: Decision) -> int:
    if decision.action != "block":
        return -1
    if decision.expires_at_ns is None:
        return 4
    if decision.lapses:
        return 3
    if decision.conditional:
        return 0
    return 2 if decision.scope_of_block == "all" else 1


def _opened(session: SessionState, call: Call, finding: Finding, settings: Breaker, mode: Mode) -> list[Decision]:
    """Open the breaker, unless it is open for as good a reason; loops of one session add up."""
    current = session.decision
    weight, loop = _weight(finding), finding.loop
    if current is not None and not (current.conditional and over(current, call.end_ns)):
        held = _weight_of(current)
        longer = finding.ends_ns > (current.expires_at_ns or 0)
        known = loop == current.loop or set(loop) <= set(current.loop)
        if weight < held or (weight == held and known and not longer):
            return []
        if weight == held == 1:
            loop = tuple(dict.fromkeys((*current.loop, *loop)))[-MAX_LOOP:]
    return [_decide(session, call.end_ns, call.agent, finding, settings, mode, action="block", loop=loop)]


def hold(session: SessionState, at_ns: int, finding: Finding, settings: Breaker, mode: Mode) -> Decision:
    """Open the breaker without a call: an operator has ordered what leads to it."""
    return _decide(session, at_ns, session.awaited, finding, settings, mode, action="block")


def _decide(
    session: SessionState,
    at_ns: int,
    agent: str,
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
    session.awaited = agent
    cooled = at_ns + int(session.cooldown_s * 1e9)
    expires = {"reset": None, "period": finding.ends_ns, "cooldown": cooled}[finding.until]
    session.decision = Decision(
        key=f"session:{session.key}",
        state="open" if action == "block" else "closed",
        action=action,
        mode=mode,
        rule=finding.rule,
        message=finding.message,
        evidence=finding.evidence,
        issued_at_ns=at_ns,
        expires_at_ns=expires,
        lapses=finding.until == "period",
        epoch=session.epoch,
        probes=settings.probes,
        scope_of_block="loop" if loop else "all",
        loop=loop,
        max_distance=finding.max_distance if any(p.near for p in loop) else 0,
        conditional=finding.conditional,
    )
    return session.decision
