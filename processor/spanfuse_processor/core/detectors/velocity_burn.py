"""velocity.burn: the same large context is sent again and again, and nothing comes of it.

A compaction that sets itself off, a client that resends: many input tokens, hardly any output, no tool asked for or answered,
and nobody who said anything new, whether the prompts are equal or not. Where messages are known, something new is a new
input after an answer; where they are not, an input that has grown by more than the last answer.
"""

from __future__ import annotations

from typing import Final

from spanfuse_processor.core.finding import Finding, action_of, evidence
from spanfuse_processor.core.overlap import began_before
from spanfuse_processor.core.pace import Burn, due, works
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.turn import Turn, number
from spanfuse_schemas import Call
from spanfuse_schemas.pace_rules import VelocityBurn

SAME_CONTEXT: Final = 0.1
"""Largest change of the input, as a share, with which it is the same context: documents of a batch differ by more."""


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Count the calls of the stretch; work, an answer of some length, or something new ends it."""
    call, burn = turn.call, session.velocity_burn
    if call.called or call.kind == "tool":
        session.velocity_burn = None
        return None
    rule, tokens = turn.rules.velocity_burn, call.tokens
    if tokens.input < rule.min_input_tokens or call.error_type or call.operation == "embeddings":
        return None
    if works(call) or tokens.output > rule.max_output_share * tokens.input:
        session.velocity_burn = None
        return None
    if burn is not None and began_before(call, burn.end_ns):
        return None  # asked several times at once: one question
    if burn is None or not _goes_on(burn, call, rule):
        burn = session.velocity_burn = _begun(session, call)
    burn.count += 1
    burn.total += tokens.input
    burn.input, burn.output, burn.end_ns = tokens.input, tokens.output, call.end_ns
    burn.canon = _canon(call)
    return _finding(session, call, burn, rule) if due(rule.mode, burn.count, rule.count) else None


def _begun(session: SessionState, call: Call) -> Burn:
    burn = Burn()
    burn.span_id, burn.since_ns = number(call.span_id), call.start_ns
    burn.spent = session.cost_nano_usd - call.cost_nano_usd
    return burn


def _canon(call: Call) -> int:
    return number(call.input.canon) if call.input is not None else 0


def _goes_on(burn: Burn, call: Call, rule: VelocityBurn) -> bool:
    size, canon = call.tokens.input, _canon(call)
    if call.start_ns - burn.end_ns > rule.max_gap_s * 1e9 or abs(size - burn.input) > SAME_CONTEXT * burn.input:
        return False
    if canon and burn.canon:
        return call.answers is None or canon == burn.canon
    return size <= burn.input + burn.output


def _finding(session: SessionState, call: Call, burn: Burn, rule: VelocityBurn) -> Finding:
    minutes = max(1.0, (call.end_ns - burn.since_ns) / 60e9)
    return Finding(
        rule="velocity.burn",
        mode=rule.mode,
        action=action_of(rule.mode),
        message=f"{burn.count} calls in a row sent {burn.total:,} tokens ({burn.total / minutes:,.0f} a minute) and brought "
        "next to nothing: no tool was used, and nobody asked anything new. Stop what triggers them, or start afresh.",
        evidence=evidence(
            session,
            call,
            (burn.span_id, burn.since_ns, burn.spent),
            count=burn.count,
            threshold=rule.count,
            unit="calls",
        ),
    )
