"""What the sessions of a replay add up to: over all, by rule, and under one policy beside another."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from spanfuse_schemas import Policy, Rules
from spanfuse_schemas.policy import RULE_NAMES

if TYPE_CHECKING:
    from spanfuse_processor.hosts.replay.report import Found, ScopeFound, SessionReport

BY_RULE: Final = {
    "detections": "what it said, of sessions and of scopes",
    "sessions": "sessions of which it said something",
    "warn": "detections that warn",
    "nudge": "detections that ask for a nudge",
    "block": "detections that ask for a block",
    "shadow": "detections in shadow, whatever they ask for; not among the three above",
    "shadow_sessions": "sessions of which it asked for a block in shadow",
    "blocked_sessions": "sessions whose first refused call it would have refused",
    "saved_calls": "model calls that those would have been saved",
    "saved_nano_usd": "money that those would have been saved, nano-dollars",
}
"""Keys of an entry of the report's `by_rule`, and what each counts."""


def totals(sessions: Collection[SessionReport]) -> dict[str, Any]:
    """What all sessions come to."""
    seconds = [s.time_to_detection_s for s in sessions if s.time_to_detection_s is not None]
    calls = [s.calls_to_detection for s in sessions if s.calls_to_detection is not None]
    return {
        "sessions": len(sessions),
        "sessions_with_detections": sum(bool(s.detections) for s in sessions),
        "sessions_blocked": sum(s.blocked_at is not None for s in sessions),
        "calls": sum(s.calls for s in sessions),
        "saved_calls": sum(s.saved_calls for s in sessions),
        "cost_nano_usd": sum(s.cost_nano_usd for s in sessions),
        "saved_nano_usd": sum(s.saved_nano_usd for s in sessions),
        "time_to_detection_s_p50": percentile(seconds, 50),
        "time_to_detection_s_p95": percentile(seconds, 95),
        "calls_to_detection_p50": percentile(calls, 50),
        "calls_to_detection_p95": percentile(calls, 95),
    }


def modes(policy: Policy) -> dict[str, str]:
    """Mode of each rule, leaving aside what is set for some agents, teams or tools."""
    found = ((name, getattr(policy.rules, field)) for name, field in zip(RULE_NAMES, Rules.model_fields, strict=True))
    budgets = {f"budget.{budget.name}": budget.mode for budget in policy.budgets}
    return {name: rule.mode for name, rule in found if hasattr(rule, "mode")} | budgets


def percentile(values: Sequence[float], percent: int) -> float | None:
    """The smallest of the values that at least so many percent of them do not exceed; none of none."""
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1] if values else None


def by_rule(sessions: Iterable[SessionReport], scopes: Iterable[ScopeFound]) -> dict[str, dict[str, int]]:
    """What each rule that said something, or would have refused a call, comes to; by its name."""
    found: dict[str, dict[str, int]] = {}
    for session in sessions:
        for detection in session.detections:
            _said(_entry(found, detection.rule), detection)
        for rule in {d.rule for d in session.detections}:
            found[rule]["sessions"] += 1
        for rule in {d.rule for d in session.detections if d.mode == "shadow" and d.action == "block"}:
            found[rule]["shadow_sessions"] += 1
        if session.blocked_at is not None:
            _stopped(_entry(found, session.rule), session)
    for told in scopes:
        _said(_entry(found, told.rule), told)
    return dict(sorted(found.items()))


def _entry(found: dict[str, dict[str, int]], rule: str) -> dict[str, int]:
    return found.setdefault(rule, dict.fromkeys(BY_RULE, 0))


def _said(entry: dict[str, int], detection: Found | ScopeFound) -> None:
    entry["detections"] += 1
    entry["shadow" if detection.mode == "shadow" else detection.action] += 1


def _stopped(entry: dict[str, int], session: SessionReport) -> None:
    entry["blocked_sessions"] += 1
    entry["saved_calls"] += session.saved_calls
    entry["saved_nano_usd"] += session.saved_nano_usd
