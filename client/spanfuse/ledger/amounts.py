"""Amounts of what budgets count: integers, checked before a ledger sees them."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple

from spanfuse.ledger.errors import InvalidAmount
from spanfuse_schemas.budget import NANO, Unit

UNITS: Final[tuple[Unit, ...]] = ("usd", "tokens", "steps")
"""In the order of `Amounts`."""

MAX_AMOUNT: Final = 10**15
"""Largest amount of one call: a million dollars in nano-dollars. What is more is a mistake, and is refused as one."""

MAX_TOTAL: Final = 10**18
"""Largest amount of one order or total, a billion dollars: sums of several stay below 2^63, where servers count exactly."""


class Amounts(NamedTuple):
    """What a call costs, or may cost, in each unit."""

    usd: int = 0
    """Nano-dollars."""
    tokens: int = 0
    """Input and output tokens."""
    steps: int = 1
    """Model calls."""


def checked(amounts: Amounts) -> Amounts:
    """The same amounts.

    Raises:
        InvalidAmount: one of them is no integer from 0 to `MAX_AMOUNT`.
    """
    for amount in amounts:
        if type(amount) is not int or not 0 <= amount <= MAX_AMOUNT:
            raise InvalidAmount(f"{_shown(amount)} is no integer from 0 to {MAX_AMOUNT}")
    return amounts


def whole(amount: object, what: str, most: int = MAX_TOTAL) -> int:
    """An integer from 0 to `most`.

    Raises:
        InvalidAmount: it is none.
    """
    if type(amount) is not int or not 0 <= amount <= most:
        raise InvalidAmount(f"{what}: {_shown(amount)} is no integer from 0 to {most}")
    return amount


def nano(usd: float | int | Decimal, most: int = MAX_AMOUNT) -> int:
    """Dollars as nano-dollars, exact for what is written with up to nine decimals.

    Raises:
        InvalidAmount: NaN, infinite, negative, no number, or more than `most` nano-dollars.
    """
    try:
        exact = Decimal(str(usd)) if isinstance(usd, (int, float, Decimal)) and not isinstance(usd, bool) else None
    except InvalidOperation:
        exact = None
    if exact is None or not exact.is_finite() or not 0 <= exact * NANO <= most:
        raise InvalidAmount(f"{_shown(usd)} is no amount of dollars from 0 to {most // NANO}")
    return round(exact * NANO)


def _shown(value: object) -> str:
    """A number as it is; of anything else its kind alone, since it may be a text."""
    return repr(value) if isinstance(value, (int, float, Decimal)) else f"a {type(value).__name__}"
