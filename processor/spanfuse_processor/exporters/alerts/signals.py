"""Detections, decisions and orders about budgets: what people are told of them."""

from __future__ import annotations

import shlex
from typing import Any, Final, Literal

from spanfuse_processor.exporters.alerts.model import SEVERITIES, Severity
from spanfuse_processor.exporters.alerts.signal import Over, Signal
from spanfuse_schemas import Decision, Detection
from spanfuse_schemas.budget import NANO, Audited

Mode = Literal["observe", "enforce"]

BUDGET: Final = "budget."
"""How the rules of budgets begin."""
_LIGHT: Final = frozenset({"drift", "safety_drift"})
"""Rules that look at how an agent works: worth a look on a dashboard, hardly a message."""
_LEVELS: Final = {"warn": 0.0, "nudge": 0.1, "block": 1.0}
"""How bad it is what a rule asks for; budgets go by the share that is spent."""
_SPENT_WARNING: Final = 0.8
"""Share of a budget from which on it is a warning."""
_EXTENSION: Final = 0.25
"""Share of its limit by which the command that is told extends a budget."""


def of_detection(found: Detection, mode: Mode, account: dict[str, Any] | None = None) -> Signal | None:
    """What a detection tells; none: its rule is in shadow.

    Args:
        mode: whether what rules ask for is enforced.
        account: of the budget that it is about, as `/v1/budgets` lists it.
    """
    if found.mode == "shadow":
        return None
    key = about(found)
    of_budget = found.rule.startswith(BUDGET)
    level = _LEVELS[found.action]
    severity = "info" if found.conditional else _severity(found.rule, key, found.action, mode)
    limit, end_ns = 0.0, None
    if of_budget:
        limit, end_ns = _account(account)
        level = found.evidence.threshold / limit if limit else level + min(found.evidence.threshold / 1e15, 0.01)
        if found.action == "warn":
            severity = "info" if limit and level < _SPENT_WARNING else "warning"
    blocks = found.action == "block"
    return Signal(
        rule=found.rule, key=key, severity=severity, title=title(found.rule, key, found.action, mode), message=found.message,
        at_ns=found.at_ns, level=level, agent=found.agent, user=found.user, team=found.team, session=found.session,
        cost_nano_usd=found.evidence.cost_nano_usd, action=found.action, mode=mode if blocks else "", evidence=found.evidence,
        limit=limit, window_end_ns=end_ns, release=release(key, found.rule, limit, found.evidence.unit) if blocks else "",
    )  # fmt: skip


def about(found: Detection) -> str:
    """The key of what a detection is about."""
    return f"session:{found.session}" if found.session else found.scope


def of_decision(decision: Decision, account: dict[str, Any] | None = None) -> Signal | Over:
    """What a change of a breaker tells."""
    key, of_budget = decision.key, decision.rule.startswith(BUDGET)
    if decision.action == "allow":
        return Over(key, decision.issued_at_ns, rearm=decision.reset)
    limit, end_ns = _account(account) if of_budget else (0.0, None)
    kind, _, name = key.partition(":")
    severity = "info" if decision.conditional else _severity(decision.rule, key, decision.action, decision.mode)
    whose: dict[str, Any] = {kind: name} if kind in ("session", "agent", "user", "team") else {}
    return Signal(
        rule=decision.rule, key=key, severity=severity, title=title(decision.rule, key, decision.action, decision.mode),
        message=decision.message, at_ns=decision.issued_at_ns, level=_LEVELS[decision.action], action=decision.action,
        mode=decision.mode, evidence=decision.evidence, cost_nano_usd=decision.evidence.cost_nano_usd, limit=limit, holds=True,
        expires_at_ns=decision.expires_at_ns, lapses=decision.lapses, window_end_ns=end_ns,
        release=release(key, decision.rule, limit, decision.evidence.unit), **whose,
    )  # fmt: skip


def of_order(audited: Audited) -> Over | None:
    """An operator has changed a budget: what was told of it is told anew should it come to that again."""
    order = audited.order
    return Over(order.scope, order.at_ns, f"{BUDGET}{order.budget}", rearm=True, budget=True) if audited.done else None


def release(key: str, rule: str, limit: float = 0, unit: str = "") -> str:
    """The command that ends what stands against a key: a budget is extended by a quarter, all else is reset."""
    if rule.startswith(BUDGET) and limit:
        name = rule.removeprefix(BUDGET)
        more = f"{limit * _EXTENSION:.2f}" if unit == "USD" and limit >= 1 else f"{max(limit * _EXTENSION, 1e-6):.4g}"
        return _command(
            "spanfuse", "budget", "extend", key, name, more if unit == "USD" else f"{limit * _EXTENSION:.0f}"
        )
    return _command("spanfuse", "reset", key)


def _command(*words: str) -> str:
    """A command for a shell, on one line whatever is in it."""
    return " ".join(shlex.quote(word) if word.isprintable() else _escaped(word) for word in words)


def _escaped(word: str) -> str:
    shown = "".join(
        chr(c) if 32 <= c < 127 and chr(c) not in "\\'" else f"\\x{c:02x}" for c in word.encode("utf-8", "replace")
    )
    return f"$'{shown}'"


def title(rule: str, key: str, action: str, mode: Mode) -> str:
    """One line: who and what."""
    kind, _, name = key.partition(":")
    who = "All together" if kind == "global" else f"{kind.capitalize()} {name}"
    stops = "stopped by" if mode == "enforce" else "would be stopped by"
    does = {"block": stops, "nudge": "nudged by"}.get(action, "warning of")
    return f"{who}: {does} {rule}"


def _severity(rule: str, key: str, action: str, mode: Mode) -> Severity:
    """A block matters by how many it concerns, and less where nothing is enforced, except that money is spent all the same."""
    if action == "block":
        severity: Severity = "warning" if key.startswith(("session:", "trace:")) else "critical"
        is_tried = mode == "observe" and not rule.startswith(BUDGET)
        return SEVERITIES[SEVERITIES.index(severity) - is_tried]
    return "info" if action == "nudge" or rule in _LIGHT else "warning"


def _account(account: dict[str, Any] | None) -> tuple[float, int | None]:
    """The limit, in the unit of its evidence, and the end of the period."""
    if account is None:
        return 0.0, None
    return account["limit"] / (NANO if account["unit"] == "usd" else 1), account["period_end_ns"]
