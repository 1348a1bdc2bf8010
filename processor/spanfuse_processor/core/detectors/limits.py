"""limits.*: absolute caps of one session: steps, calls per tool, tokens, duration. Each is off until set."""

from __future__ import annotations

from spanfuse_processor.core.finding import Finding, action_of, evidence
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.turn import Turn
from spanfuse_schemas.policy import Limits


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Name the first cap that is reached; a cap of N lets N through."""
    rule = turn.rules.limits
    if rule.mode == "off":
        return None
    if rule.max_steps is not None and session.calls >= rule.max_steps:
        return _finding(session, turn, rule, "max_steps", session.calls, rule.max_steps, "calls")
    if rule.max_tokens is not None and session.tokens >= rule.max_tokens:
        return _finding(session, turn, rule, "max_tokens", session.tokens, rule.max_tokens, "tokens")
    elapsed_s = (session.last_ns - session.first_ns) / 1e9
    if rule.max_duration_s is not None and elapsed_s >= rule.max_duration_s:
        return _finding(session, turn, rule, "max_duration_s", elapsed_s, rule.max_duration_s, "s")
    return _tool_cap(session, turn, rule) if rule.max_tool_calls else None


def _tool_cap(session: SessionState, turn: Turn, rule: Limits) -> Finding | None:
    for tool in turn.call.called:
        cap = rule.max_tool_calls.get(tool, rule.max_tool_calls.get("*"))
        # A tool call shows in the model call that asked for it, in the span that executed it, or in both.
        count = max(session.tool_actions.get(tool, 0), session.tool_spans.get(tool, 0))
        if cap is not None and count >= cap:
            return _finding(session, turn, rule, "max_tool_calls", count, cap, "calls", tool)
    return None


def _finding(
    session: SessionState, turn: Turn, rule: Limits, name: str, value: float, cap: float, unit: str, tool: str = ""
) -> Finding:
    of = f" of `{tool}`" if tool else ""
    return Finding(
        rule=f"limits.{name}",
        mode=rule.mode,
        action=action_of(rule.mode),
        message=f"The session has reached its limit of {cap:g} {unit}{of} ({name}). Finish with what is known.",
        evidence=evidence(
            session,
            turn.call,
            (0, session.first_ns, 0),
            count=session.calls,
            threshold=cap,
            value=value,
            unit=unit,
            tool=tool,
        ),
        until="reset",
    )
