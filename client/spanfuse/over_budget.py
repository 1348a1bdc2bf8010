"""The refusal of a call for which a strict budget has no room."""

from __future__ import annotations

import time
from typing import Any

from spanfuse.blocked import UNAVAILABLE, Blocked
from spanfuse.ledger.records import Refusal
from spanfuse_schemas import Decision, Evidence
from spanfuse_schemas.budget import NANO

_PLAIN = Refusal("", "", "usd", 0, 0, 0, 0, None)


class OverBudget(Blocked):
    """A strict budget has no room for the call, or the ledger is away and nothing is let through without it.

    Amounts are in the budget's unit: nano-dollars, tokens or calls.

    Attributes:
        budget: name of the budget; empty where the ledger was never heard of.
        unit: `usd`, `tokens` or `steps`.
        spent: settled in this period.
        held: reserved for calls under way.
        limit: with what operators set or added; while the ledger is away, the local allowance.
        remaining: what may still be reserved.
        asked: estimate of the call.
        until: end of the budget's period, UTC; None: it is for good.
    """

    def __init__(self, decision: Decision, refusal: Refusal = _PLAIN) -> None:
        super().__init__(decision)
        self.refusal = refusal
        self.budget, self.unit = refusal.budget, refusal.unit
        self.spent, self.held, self.limit = refusal.spent, refusal.held, refusal.limit
        self.remaining, self.asked = refusal.remaining, refusal.asked

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.decision, self.refusal)

    def _release(self) -> str:
        if self.rule == UNAVAILABLE:
            return "It passes again once the ledger can be reached"
        until = "It has no period" if self.until is None else f"Its period ends {self.until:%Y-%m-%d %H:%M:%S} UTC"
        return f"{until}. To extend it: spanfuse budget extend {self.key} {self.budget} AMOUNT"


def over_budget(refusal: Refusal, *, away: str = "") -> OverBudget:
    """The exception for a refusal.

    Args:
        away: why the ledger cannot be reached, where a local allowance refused.
    """
    scale, unit = (NANO, "USD") if refusal.unit == "usd" else (1, refusal.unit)
    decision = Decision(
        key=refusal.scope,
        state="open",
        action="block",
        mode="enforce",
        rule=UNAVAILABLE if away else f"budget.{refusal.budget}",
        message=f"{away}; {refusal.text()}" if away else refusal.text(),
        evidence=Evidence(value=(refusal.spent + refusal.held) / scale, threshold=refusal.limit / scale, unit=unit),
        issued_at_ns=time.time_ns(),
        expires_at_ns=None if away else refusal.until_ns,
        lapses=not away and refusal.until_ns is not None,
    )
    return OverBudget(decision, refusal)
