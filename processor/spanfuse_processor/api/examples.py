"""An example of each answer, for the OpenAPI document. A test holds them to their shapes."""

from __future__ import annotations

from typing import Any, Final

AT: Final = 1_767_262_320_000_000_000
KEY: Final = "session:checkout-42"

_DECISION: Final[dict[str, Any]] = {
    "key": KEY,
    "state": "open",
    "action": "block",
    "mode": "enforce",
    "rule": "repeat.no_progress",
    "message": "`search` brought the same result 3 times. Use what it brought, or ask in another way.",
    "evidence": {"count": 3, "threshold": 3, "value": 3, "unit": "repeats", "cost_nano_usd": 41_000_000},
    "issued_at_ns": AT,
    "expires_at_ns": AT + 300_000_000_000,
    "epoch": 1,
}
_CLOSED: Final[dict[str, Any]] = {"key": KEY, "state": "closed", "issued_at_ns": AT, "epoch": 2, "reset": True}
_DETECTION: Final[dict[str, Any]] = {
    "id": "5d41402abc4b2a76",
    "rule": "repeat.no_progress",
    "action": "block",
    "mode": "block",
    "session": "checkout-42",
    "agent": "checkout",
    "model": "gpt-4o",
    "call": 6,
    "at_ns": AT,
    "message": "`search` brought the same result 3 times.",
    "evidence": {"count": 3, "threshold": 3, "value": 3, "unit": "repeats"},
}
_SESSION: Final[dict[str, Any]] = {
    "session": "checkout-42",
    "agent": "checkout",
    "user": "u-7",
    "team": "shop",
    "model": "gpt-4o",
    "calls": 7,
    "tools": 6,
    "tokens": 18_200,
    "cost_nano_usd": 61_000_000,
    "first_ns": AT - 95_000_000_000,
    "last_ns": AT,
    "state": "open",
    "action": "block",
    "mode": "enforce",
    "rule": "repeat.no_progress",
    "message": _DECISION["message"],
    "expires_at_ns": AT + 300_000_000_000,
    "epoch": 1,
    "would_block": 0,
    "detections": 1,
}
_STEP: Final[dict[str, Any]] = {
    "at_ns": AT,
    "lasted_ns": 1_300_000_000,
    "span_id": "00f067aa0ba902b7",
    "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    "kind": "tool",
    "agent": "checkout",
    "model": "",
    "tools": ["search"],
    "tokens": 0,
    "cost_nano_usd": 0,
    "error": "",
    "loop": 1,
    "rules": ["repeat.no_progress"],
    "decision": "block",
}
_SUMS: Final[dict[str, Any]] = {
    "calls": 412,
    "sessions": 40,
    "loops": 3,
    "loops_per_1000_calls": 7.282,
    "failures": 0,
    "cost_nano_usd": 5_150_000_000,
    "cost_nano_usd_per_call": 12_500_000,
    "input_tokens": 812_000,
    "output_tokens": 40_000,
    "last_ns": AT,
}
_AGENT: Final[dict[str, Any]] = {
    "agent": "checkout",
    **_SUMS,
    "trips": 3,
    "usual": {
        "sessions": 40,
        "calls_p50": 6,
        "calls_p95": 13,
        "recommended_max_steps": 26,
        "recommended_budget_usd": 0.32,
    },
    "coverage": {"guarded": 96, "seen": 96, "share": 1.0},
}
_ACCOUNT: Final[dict[str, Any]] = {
    "account": "user:u-7|user/daily|1767225600",
    "scope": "user:u-7",
    "budget": "user/daily",
    "unit": "usd",
    "spent": 4_100_000_000,
    "limit": 5_000_000_000,
    "remaining": 900_000_000,
    "used": 0.82,
    "status": "warning",
    "period_start_ns": 1_767_225_600_000_000_000,
    "period_end_ns": 1_767_312_000_000_000_000,
    "projected_ns": 1_767_270_000_000_000_000,
}
_DONE: Final[dict[str, Any]] = {"done": True, "why": "", "account": _ACCOUNT}
_POLICY: Final[dict[str, Any]] = {
    "key": "policy:*",
    "epoch": 1_767_262_320_000,
    "issued_at_ns": AT,
    "policy": {"mode": "enforce"},
}
_RULE: Final[dict[str, Any]] = {
    "rule": "repeat.no_progress",
    "mode": "block",
    "counted": 3,
    "threshold": 3,
    "unit": "repeats",
    "fired": True,
    "stands": True,
    "why": "The same step brought the same result 3 times.",
}
_ALERT: Final[dict[str, Any]] = {
    "id": "a1b2c3d4",
    "rule": "repeat.no_progress",
    "key": KEY,
    "severity": "critical",
    "state": "firing",
    "title": "checkout-42 was stopped",
    "message": _DECISION["message"],
    "agent": "checkout",
    "session": "checkout-42",
    "cost_nano_usd": 61_000_000,
    "first_ns": AT,
    "last_ns": AT,
    "count": 1,
    "receivers": ["on-call"],
    "release": "spanfuse reset session:checkout-42",
}
_DRY_RUN: Final[dict[str, Any]] = {
    "calls": 9_000,
    "from_ns": AT - 3_600_000_000_000,
    "to_ns": AT,
    "complete": True,
    "totals": {"old": {"sessions": 300, "sessions_blocked": 4}, "new": {"sessions": 300, "sessions_blocked": 5}},
    "by_rule": {"cycle": {"old": {"detections": 3}, "new": {"detections": 4}}},
    "stopped_by_new_only": [{"session": "run-7", "calls": 9, "blocked_at": 4, "rule": "cycle", "saved_calls": 5}],
    "stopped_by_old_only": [],
    "stopped_elsewhere": [],
}
_OVERLAY: Final[dict[str, Any]] = {
    "overlay": {"detectors": {"cycle": {"mode": "block"}}},
    "actor": "alice",
    "reason": "loops since the release of noon",
    "at_ns": AT,
    "in_force": True,
}

EXAMPLES: Final[dict[tuple[str, str], Any]] = {
    ("get", "/healthz"): {"healthy": True},
    ("get", "/readyz"): {"ready": True},
    ("get", "/v1/status"): {
        "version": "0.1.0",
        "host": "embedded",
        "mode": "enforce",
        "policy_epoch": 1_767_262_320_000,
        "uptime_s": 3600.0,
        "sessions": 300,
        "open_breakers": 2,
        "half_open_breakers": 1,
        "counts": {"calls": 9_000, "decisions": 7, "detections": {"repeat.no_progress": 3}},
    },
    ("get", "/v1/decisions"): {"decisions": [_DECISION]},
    ("get", "/v1/breakers"): {"breakers": [_DECISION], "next": ""},
    ("get", "/v1/breakers/{key}"): {"key": KEY, "decision": _DECISION, "history": [_DECISION]},
    ("get", "/v1/explain/{key}"): {
        "key": KEY, "known": True, "decision": _DECISION, "others": [], "rules": [_RULE], "policy_epoch": 1_767_262_320_000,
    },
    ("post", "/v1/reset"): {"key": KEY, "state": "closed", "epoch": 2},
    ("get", "/v1/sessions"): {"sessions": [_SESSION], "next": ""},
    ("get", "/v1/sessions/{session}"): {**_SESSION, "decision": _DECISION, "budgets": []},
    ("get", "/v1/sessions/{session}/timeline"): {
        "session": "checkout-42", "steps": [_STEP], "detections": [_DETECTION], "decisions": [_CLOSED, _DECISION],
    },
    ("get", "/v1/detections"): {"detections": [_DETECTION], "next": ""},
    ("get", "/v1/agents"): {"agents": [_AGENT]},
    ("get", "/v1/models"): {"models": [{"model": "gpt-4o", **_SUMS}]},
    ("get", "/v1/series"): {
        "kind": "agent", "name": "checkout",
        "minutes": [{"minute": AT // 60_000_000_000, "calls": 7, "cost_nano_usd": 61_000_000, "tokens": 18_200, "blocks": 1}],
    },
    ("get", "/v1/budgets"): {"budgets": [_ACCOUNT]},
    ("put", "/v1/budgets"): _DONE,
    ("post", "/v1/budgets/extend"): _DONE,
    ("post", "/v1/budgets/orders"): _DONE,
    ("get", "/v1/budgets/audit"): {
        "audit": [
            {
                "order": {
                    "id": "7", "scope": "user:u-7", "budget": "user/daily", "action": "extend", "amount": 2_000_000_000,
                    "reason": "demo", "actor": "alice", "at_ns": AT,
                },
                "done": True,
                "account": _ACCOUNT,
            }
        ]
    },
    ("post", "/v1/budgets/rebuild"): {"accounts": 18},
    ("get", "/v1/policy"): _POLICY,
    ("put", "/v1/policy"): _POLICY,
    ("get", "/v1/policy/overlay"): {"overlay": _OVERLAY},
    ("post", "/v1/policy/dry-run"): _DRY_RUN,
    ("get", "/v1/alerts"): {"alerts": [_ALERT], "next": ""},
    ("post", "/v1/alerts/test"): {"deliveries": [{"receiver": "on-call", "kind": "slack", "delivered": True, "why": ""}]},
    ("post", "/v1/alerts/{id}/ack"): {**_ALERT, "acknowledged_by": "alice"},
    ("post", "/v1/alerts/{id}/snooze"): {**_ALERT, "snoozed_until_ns": AT + 3_600_000_000_000},
    ("post", "/login"): {"name": "alice", "role": "operate", "expires_s": 1_767_300_000},
}  # fmt: skip
"""(method, path) → an answer."""
