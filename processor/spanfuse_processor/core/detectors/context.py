"""context: the input fills the model's context window, told in three tiers.

`context.warning`, `context.error` and `context.blocking`, each once per agent of a session, and again after the context has
shrunk. A model whose window no table and no setting knows is passed over; so is one that took more than the window the table
names, since that was another one (a long-context variant).
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

from spanfuse_processor.core.finding import Finding, action_of, evidence
from spanfuse_processor.core.pace import ContextTiers
from spanfuse_processor.core.pricing import context_window
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.turn import Turn
from spanfuse_schemas import Call
from spanfuse_schemas.detection import DetectionAction
from spanfuse_schemas.pace_rules import Context

TIERS: Final = ("warning", "error", "blocking")
REARM: Final = 0.8
"""A tier is told again once the input has fallen under this share of it: by a compaction, not by a shorter answer."""
MAX_AGENTS: Final = 8


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Tell the tier that the input has come to."""
    call, rule = turn.call, turn.rules.context
    used = call.tokens.input
    if not used:
        return None
    given = _given(rule, call) if rule.windows else 0
    window = given or context_window(call.provider, call.model)
    if session.context is None and used < rule.warning_at * window:
        return None  # cheap way out of nearly every call
    if (used > window and not given) or call.operation == "embeddings":
        return None
    level = _reached(rule, window, used)
    before = _told(session, call.agent, level, _reached(rule, window, used / REARM))
    action = _action(rule, level)
    if not level or (level <= before and not (action == "block" and rule.mode == "block")):
        return None
    return _finding(session, call, rule, level, window, action)


def _told(session: SessionState, agent: str, level: int, still: int) -> int:
    """The tier that was told before and has not been left since; remember this one."""
    told = session.context.told if session.context is not None else {}
    before = min(told.pop(agent, 0), still)
    if level or before:
        if len(told) >= MAX_AGENTS:
            del told[next(iter(told))]
        told[agent] = max(level, before)
    session.context = ContextTiers(told) if told else None
    return before


def _given(rule: Context, call: Call) -> int:
    """The window that a setting names, tokens; 0: none does."""
    return next((tokens for pattern, tokens in rule.windows.items() if fnmatchcase(call.model, pattern)), 0)


def _reached(rule: Context, window: int, used: float) -> int:
    """How many tiers."""
    return sum(used >= at * window for at in (rule.warning_at, rule.error_at, rule.blocking_at))


def _action(rule: Context, level: int) -> DetectionAction:
    """Only the last tier blocks."""
    action = action_of(rule.mode)
    return "warn" if action == "block" and level < len(TIERS) else action


def _finding(
    session: SessionState, call: Call, rule: Context, level: int, window: int, action: DetectionAction
) -> Finding:
    tier = TIERS[level - 1]
    at = (rule.warning_at, rule.error_at, rule.blocking_at)[level - 1]
    used = call.tokens.input
    return Finding(
        rule=f"context.{tier}",
        mode=rule.mode,
        action=action,
        message=f"The input takes {used:,} of the {window:,} tokens of the model's context window ({used / window:.0%}). "
        "Compact the history, or finish with what is known.",
        evidence=evidence(
            session,
            call,
            (0, call.end_ns, session.cost_nano_usd - call.cost_nano_usd),
            count=session.calls,
            threshold=at * window,
            value=used,
            unit="tokens",
        ),
    )
