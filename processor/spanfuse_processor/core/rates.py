"""Prices as they are applied: integer nano-dollars per million tokens, by class of tokens and by tier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from spanfuse_schemas import Tokens

_MILLION: Final = 1_000_000

Rate = tuple[tuple[int, int], ...]
"""A price by tiers, dearest tier last: (input tokens above which it holds, nano-dollars per million tokens)."""
_FREE: Final[Rate] = ((-1, 0),)


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """An operator's price of a model, USD per million tokens."""

    input_usd_per_mtok: float
    """Input tokens."""
    output_usd_per_mtok: float
    """Output tokens."""
    cache_read_usd_per_mtok: float | None = None
    """Input tokens read from the cache. Default: as input."""
    cache_write_usd_per_mtok: float | None = None
    """Input tokens written to the cache. Default: as input."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The prices of a model while `active`."""

    active: Callable[[datetime], bool] | None
    input: Rate
    output: Rate
    cache_read: Rate
    cache_write: Rate
    reasoning: Rate
    request: int = 0
    """Nano-dollars per request."""

    def cost(self, tokens: Tokens) -> int:
        """Nano-dollars, rounded up: crossing a tier of input tokens prices all tokens at that tier."""
        size = tokens.input
        cached, thought = tokens.cache_read + tokens.cache_write, tokens.reasoning
        total = max(0, size - cached) * _at(self.input, size) + max(0, tokens.output - thought) * _at(self.output, size)
        if cached:
            total += tokens.cache_read * _at(self.cache_read, size) + tokens.cache_write * _at(self.cache_write, size)
        if thought:
            total += thought * _at(self.reasoning, size)
        return -(-total // _MILLION) + (self.request if size or tokens.output else 0)


def _at(rate: Rate, input_tokens: int) -> int:
    price = rate[0][1]
    if len(rate) > 1:
        for start, tier in rate[1:]:
            if input_tokens > start:
                price = tier
    return price


def _nano(usd_per_mtok: float | Decimal) -> int:
    return round(Decimal(str(usd_per_mtok)) * 1_000_000_000)


def _rate(price: Any) -> Rate | None:
    """Of a genai-prices Decimal or TieredPrices; `None` where it names none."""
    if price is None:
        return None
    tiers = getattr(price, "tiers", ())
    return ((-1, _nano(getattr(price, "base", price))), *((t.start, _nano(t.price)) for t in tiers))


def listed(price: Any, active: Callable[[datetime], bool] | None) -> Rates | None:
    """Of a genai-prices ModelPrice; `None` where it prices no text tokens."""
    read_input, read_output = _rate(price.input_mtok), _rate(price.output_mtok)
    if read_input is None and read_output is None:
        return None
    base, output = read_input or _FREE, read_output or _FREE
    per_request = round((price.requests_kcount or Decimal(0)) * 1_000_000)
    return Rates(
        active,
        base,
        output,
        _rate(price.cache_read_mtok) or base,
        _rate(price.cache_write_mtok) or base,
        _rate(price.output_reasoning_mtok) or output,
        per_request,
    )


def own(price: ModelPrice) -> tuple[Rates, ...]:
    def rate(usd: float | None) -> Rate:
        return ((-1, _nano(price.input_usd_per_mtok if usd is None else usd)),)

    return (
        Rates(
            None,
            rate(None),
            rate(price.output_usd_per_mtok),
            rate(price.cache_read_usd_per_mtok),
            rate(price.cache_write_usd_per_mtok),
            rate(price.output_usd_per_mtok),
        ),
    )
