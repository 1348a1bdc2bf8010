"""spend.idle: an idle agent is woken, again and again, for nothing.

A timer sends the whole context every half hour and is answered "OK". Each waking is one call in a minute, far below any rate;
what tells it is the row: a long pause, a large input, a few words out, no tool.
"""

from __future__ import annotations

from spanfuse_processor.core.finding import Finding, action_of, evidence
from spanfuse_processor.core.pace import Idle, due, works
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.turn import Turn, number
from spanfuse_schemas import Call
from spanfuse_schemas.pace_rules import SpendIdle


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Count the wakings; a tool or an answer of some length ends the row."""
    call, idle = turn.call, session.spend_idle
    if call.called or call.kind == "tool":
        session.spend_idle = None
        return None
    rule, tokens = turn.rules.spend_idle, call.tokens
    if tokens.output > rule.max_output_tokens or works(call):
        session.spend_idle = None
        return None
    if tokens.input < rule.min_input_tokens or call.error_type or call.operation == "embeddings":
        return None
    if idle is None:
        idle = session.spend_idle = _begun(session, call)
    elif call.start_ns - idle.end_ns < rule.min_pause_s * 1e9:
        idle.end_ns = max(idle.end_ns, call.end_ns)
        return None  # of the same waking
    idle.count += 1
    idle.end_ns = call.end_ns
    return _finding(session, call, idle, rule) if due(rule.mode, idle.count, rule.count) else None


def _begun(session: SessionState, call: Call) -> Idle:
    idle = Idle()
    idle.span_id, idle.since_ns = number(call.span_id), call.start_ns
    idle.spent = session.cost_nano_usd - call.cost_nano_usd
    return idle


def _finding(session: SessionState, call: Call, idle: Idle, rule: SpendIdle) -> Finding:
    hours = (call.end_ns - idle.since_ns) / 3600e9
    cost = (session.cost_nano_usd - idle.spent) / 1e9
    return Finding(
        rule="spend.idle",
        mode=rule.mode,
        action=action_of(rule.mode),
        message=f"The agent was woken {idle.count} times in {hours:.1f} h with {call.tokens.input:,} tokens of context, and "
        f"did nothing: ${cost:.2f}. Wake it less often, or with a fresh context.",
        evidence=evidence(
            session,
            call,
            (idle.span_id, idle.since_ns, idle.spent),
            count=idle.count,
            threshold=rule.count,
            unit="calls",
        ),
    )
