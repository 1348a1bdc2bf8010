"""The definitions that all who use a ledger share: budgets, whether they are enforced, and prices to estimate with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, Literal

from pydantic import Field, field_validator

from spanfuse.ledger.amounts import UNITS, Amounts
from spanfuse.ledger.records import Claim, Refusal, Room
from spanfuse_schemas.budget import NANO, Budget, BudgetBook, Share, Unit
from spanfuse_schemas.periods import FOREVER_NS, Period
from spanfuse_schemas.record import Record

KEPT_S: Final = 35 * 24 * 3600
"""How long an account is kept after its period, or that of a session or trace after its last day of use, seconds: a month can
still be compared when the next is over. An account that is for good and not of a session or trace is kept for good."""

_CACHED: Final = 8192
"""Calls of different identities whose claims are kept at hand."""


class Definitions(Record):
    """What `define` writes and every Guard reads."""

    mode: Literal["observe", "enforce"] = "enforce"
    """`observe`: what would be refused is told, nothing is refused."""
    budgets: tuple[Budget, ...] = ()
    """All budgets; a ledger keeps accounts of the strict ones."""
    prices: dict[str, tuple[int, int]] = Field(default_factory=dict)
    """Model → nano-dollars per million input and output tokens, to estimate with."""
    fallback: tuple[int, int] = (5 * NANO, 15 * NANO)
    """The same for other models; default as `pricing.fallback_…`."""

    @field_validator("budgets")
    @classmethod
    def _plain_names(cls, budgets: tuple[Budget, ...]) -> tuple[Budget, ...]:
        names = [budget.name for budget in budgets]
        if len(set(names)) != len(names) or any("\0" in name for name in names):
            raise ValueError("names of budgets are unique, and without zero bytes")
        return budgets


class Book:
    """Definitions at hand.

    Args:
        definitions: their JSON; empty for none.
    """

    def __init__(self, definitions: str) -> None:
        self.version: Final = version_of(definitions)
        """Names their content."""
        self.definitions: Final[Definitions] = Definitions.from_json(definitions) if definitions else Definitions()
        self.by_name: Final = {budget.name: budget for budget in self.definitions.budgets}
        self._strict = BudgetBook([b for b in self.definitions.budgets if b.strength == "strict"])
        self._enforced = self.definitions.mode == "enforce"
        self._claims: dict[tuple[tuple[str, str], ...], tuple[int, int, tuple[Claim, ...]]] = {}

    def enforces(self, budget: Budget) -> bool:
        """Whether one refuses calls, or is only observed."""
        return self._enforced and budget.mode == "block"

    def claims(self, identities: Mapping[str, str], at_ns: int) -> tuple[Claim, ...]:
        """The accounts that a call is charged to.

        Args:
            identities: kind → name, such as `{"user": "u-7"}`.
            at_ns: the moment of the call, nanoseconds since the Unix epoch.
        """
        who = tuple(identities.items())
        known = self._claims.get(who)
        if known is None or not known[0] <= at_ns < known[1]:
            known = self._find(who, at_ns)
        return known[2]

    def _find(self, who: tuple[tuple[str, str], ...], at_ns: int) -> tuple[int, int, tuple[Claim, ...]]:
        """The claims of a call, and from when until when they are these."""
        claims = tuple(self.claim(share, at_ns) for share in self._strict.all_of(dict(who)))
        start_ns = max((claim.period.start_ns for claim in claims), default=0)
        end_ns = min((claim.period.end_ns for claim in claims), default=FOREVER_NS)
        if len(self._claims) >= _CACHED:
            self._claims.clear()
        found = self._claims[who] = start_ns, end_ns, claims
        return found

    def claim(self, share: Share, at_ns: int) -> Claim:
        """The account of one budget of one identity."""
        budget, scope = share
        period = budget.period_at(at_ns)
        text = claim_text(
            budget.unit, budget.limit, self.enforces(budget), period, _kept_s(share, period), budget.name, scope
        )
        return Claim(scope, budget, period, UNITS.index(budget.unit), share.key(period), text)


def claim_text(unit: Unit, limit: int, enforced: bool, period: Period, kept_s: int, name: str, scope: str) -> str:
    """A claim as `ledger.lua` reads it. The name of the identity comes last, since it may hold anything."""
    total = period.end_ns >= FOREVER_NS
    start, end = ("", "") if total else (period.start_ns // NANO, period.end_ns // NANO)
    return f"{UNITS.index(unit) + 1} {limit} {enforced:d} {start} {end} {kept_s} {name}\0{scope}"


def _kept_s(share: Share, period: Period) -> int:
    """How long an account is kept after its period, or without end after its last day of use, seconds; 0: for good."""
    return KEPT_S if period.end_ns < FOREVER_NS or share.budget.scope in ("session", "trace") else 0


def version_of(definitions: str) -> str:
    """A name for the content of definitions; empty for none."""
    return hashlib.blake2b(definitions.encode(), digest_size=8).hexdigest() if definitions else ""


def tightest(
    claims: tuple[Claim, ...], rooms: tuple[Room, ...], amounts: Amounts, *, blocking: bool = False
) -> Refusal | None:
    """Of the budgets without room for a call, the one that it would exceed furthest, by share of its limit.

    Args:
        blocking: only of those that are to block.
    """
    worst: tuple[float, Refusal] | None = None
    for claim, room in zip(claims, rooms, strict=True):
        budget, asked = claim.budget, amounts[claim.unit]
        if asked <= room.left or (blocking and budget.mode != "block"):
            continue
        used = (room.spent + room.held + asked) / max(room.limit, 1)
        until = claim.period.end_ns if claim.period.end_ns < FOREVER_NS else None
        if worst is None or used > worst[0]:
            found = Refusal(claim.scope, budget.name, budget.unit, room.spent, room.held, room.limit, asked, until)
            worst = used, found
    return worst[1] if worst else None
