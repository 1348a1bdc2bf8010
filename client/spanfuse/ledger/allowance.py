"""What a process may spend while the ledger is away: a small share of what it last knew to be left, so that a fleet that loses
its ledger at once does not spend many times the budget."""

from __future__ import annotations

from typing import Final

from spanfuse.ledger.amounts import Amounts
from spanfuse.ledger.records import Claim, Hold, Refusal

SHARE: Final = 0.05
"""Share of what was left that one process may spend: twenty processes together spend at most all of it."""

_KNOWN: Final = 1024
"""Calls of different identities whose accounts are remembered."""


class Allowance:
    """Counts by account what was let through since the ledger went away. Not safe under threads by itself."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, ...], Hold] = {}
        self._left: dict[str, int] | None = None
        self._used: dict[str, int] = {}

    def learn(self, who: tuple[str, ...], hold: Hold) -> None:
        """Remember an answer of the ledger; it is read once it is needed."""
        self._seen.pop(who, None)
        self._seen[who] = hold
        if len(self._seen) > _KNOWN:
            self._seen.pop(next(iter(self._seen)), None)

    def begin(self) -> None:
        """The ledger is away."""
        self._used.clear()
        self._left = {}
        for hold in list(self._seen.values()):
            for claim, room in zip(hold.claims, hold.rooms, strict=False):
                self._left[claim.account] = max(0, room.left - hold.amounts[claim.unit])

    def take(self, claims: tuple[Claim, ...], amounts: Amounts) -> Refusal | None:
        """Let a call through, or say what does not suffice for it."""
        for claim in claims:
            used, asked, allowed = self._used.get(claim.account, 0), amounts[claim.unit], self._allowed(claim)
            if used + asked > allowed:
                return Refusal(
                    claim.scope, claim.budget.name, claim.budget.unit, used, 0, allowed, asked, claim.period.end_ns
                )
        self.change(claims, amounts, 1)
        return None

    def change(self, claims: tuple[Claim, ...], amounts: Amounts, sign: int) -> None:
        """Add to, or take from, what was spent."""
        for claim in claims:
            self._used[claim.account] = self._used.get(claim.account, 0) + sign * amounts[claim.unit]

    def _allowed(self, claim: Claim) -> int:
        """Of an account that was never seen here, nothing is taken to be spent."""
        left = (self._left or {}).get(claim.account, claim.budget.limit)
        return int(left * SHARE)
