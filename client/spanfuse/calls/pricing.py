"""What a call costs as far as its process can tell: by the user's function, the ledger's prices, list prices, a fallback."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from spanfuse.calls.estimate import Price, Tokens, by_rate, by_table

if TYPE_CHECKING:
    from spanfuse.ledger.purse import Purse

Listed = Callable[[str, str, Tokens], "int | None"]
"""Provider, model, tokens → nano-dollars; None where no list has the model."""


class Pricing:
    """Prices calls.

    Args:
        price: the user's function; where it fails, or answers what is no amount, it is passed over.
        purse: whose ledger publishes prices; None: there is none.

    Attributes:
        listed: list prices; None: none are at hand.
    """

    def __init__(self, price: Price | None, purse: Purse | None) -> None:
        self._price, self._purse = price, purse
        self.listed: Listed | None = None

    def cost(self, provider: str, model: str, tokens: Tokens) -> int:
        """Cost of so many tokens, nano-dollars."""
        from spanfuse.ledger.amounts import MAX_AMOUNT
        from spanfuse.ledger.book import Definitions

        found = self._own(model, tokens)
        known = (self._purse.definitions if self._purse is not None else None) or Definitions()
        if found is None:
            found = by_table(model, tokens, known)
        if found is None and self.listed is not None:
            found = self.listed(provider, model, tokens)
        return min(by_rate(tokens, known.fallback) if found is None else found, MAX_AMOUNT)

    def _own(self, model: str, tokens: Tokens) -> int | None:
        if self._price is None:
            return None
        from spanfuse.ledger.amounts import nano

        try:
            return nano(self._price(model, tokens.input, tokens.output))
        except Exception:  # a foreign function
            return None
