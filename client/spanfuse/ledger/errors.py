"""What a ledger raises.

LedgerError
├── Refused             a budget has no room for the call; terminal
├── Unavailable         the ledger cannot be reached, or not in time; try again later
├── Away                the same, of a Guard, whose local allowance does not let the call through either
├── UnknownCall         nothing was reserved under that id, or it is forgotten
└── InvalidAmount       no amount: NaN, infinite, negative, too large; a ValueError as well
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spanfuse.ledger.records import Refusal


class LedgerError(Exception):
    """The base of all."""


class Refused(LedgerError):
    """A budget has no room for the call.

    Attributes:
        refusal: the tightest budget, and its numbers.
    """

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal

    def __str__(self) -> str:
        return self.refusal.text()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.refusal,)


class Unavailable(LedgerError):
    """The ledger cannot be reached, or did not answer in time. What was asked may have been done all the same: ask again
    under the same call id, which is done once."""


class Away(LedgerError):
    """The ledger is away, and what is allowed without it does not suffice, or nothing is.

    Attributes:
        refusal: the budget that refuses; None: the ledger was never heard of.
    """

    def __init__(self, why: str, refusal: Refusal | None = None) -> None:
        super().__init__(why)
        self.refusal = refusal


class UnknownCall(LedgerError):
    """Nothing was reserved under that call id, or it is forgotten: settle with the `Hold`, or name who made the call."""


class InvalidAmount(LedgerError, ValueError):
    """No amount of money, tokens or steps. Nothing was changed."""
