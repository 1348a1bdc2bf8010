"""What a call costs: integer nano-dollars, from genai-prices' bundled table or from the operator's own prices.

Nothing is fetched, no clock is read: the moment of the call decides which price was in force.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from genai_prices import data_snapshot

from spanfuse_schemas import Tokens
from spanfuse_schemas.call import CostSource

PROVIDER_ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "aws.bedrock": "aws",
        "bedrock": "aws",
        "azure.ai.openai": "azure",
        "azure.ai.inference": "azure",
        "gcp.gemini": "google",
        "gcp.vertex_ai": "google",
        "gcp.gen_ai": "google",
        "mistral_ai": "mistral",
        "moonshot_ai": "moonshotai",
        "x_ai": "x-ai",
        "together_ai": "together",
        "fireworks_ai": "fireworks",
    }
)
"""OpenTelemetry's provider names → those of genai-prices, where they differ."""

MAX_KNOWN: Final = 4096
"""Models whose prices are kept at hand."""
MAX_UNKNOWN: Final = 1024
"""Unknown models counted by name; later ones are counted together as `*`."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLION: Final = 1_000_000

Rate = tuple[tuple[int, int], ...]
"""A price by tiers, dearest tier last: (input tokens above which it holds, nano-dollars per million tokens)."""


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
    request: int = 0
    """Nano-dollars per request."""

    def cost(self, tokens: Tokens) -> int:
        """Nano-dollars, rounded up: crossing a tier of input tokens prices all tokens at that tier."""
        size = tokens.input
        cached = tokens.cache_read + tokens.cache_write
        total = max(0, size - cached) * _at(self.input, size) + tokens.output * _at(self.output, size)
        if cached:
            total += tokens.cache_read * _at(self.cache_read, size) + tokens.cache_write * _at(self.cache_write, size)
        return -(-total // _MILLION) + (self.request if total else 0)


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


def _rates(price: Any, active: Callable[[datetime], bool] | None) -> Rates | None:
    """Of a genai-prices ModelPrice; `None` where it prices no text tokens."""
    read_input, read_output = _rate(price.input_mtok), _rate(price.output_mtok)
    if read_input is None and read_output is None:
        return None
    free: Rate = ((-1, 0),)
    base = read_input or free
    per_request = round((price.requests_kcount or Decimal(0)) * 1_000_000)
    return Rates(
        active,
        base,
        read_output or free,
        _rate(price.cache_read_mtok) or base,
        _rate(price.cache_write_mtok) or base,
        per_request,
    )


def _own(price: ModelPrice) -> tuple[Rates, ...]:
    def rate(usd: float | None) -> Rate:
        return ((-1, _nano(price.input_usd_per_mtok if usd is None else usd)),)

    return (
        Rates(
            None,
            rate(None),
            rate(price.output_usd_per_mtok),
            rate(price.cache_read_usd_per_mtok),
            rate(price.cache_write_usd_per_mtok),
        ),
    )


class Prices:
    """Prices of models, looked up once for each (provider, model).

    Args:
        fallback_input_usd_per_mtok: price of input tokens of models that no table knows, USD per million.
        fallback_output_usd_per_mtok: the same for output tokens.
        overrides: model, or `provider/model`, → the price that holds in place of the table's.
    """

    def __init__(
        self,
        fallback_input_usd_per_mtok: float = 5.0,
        fallback_output_usd_per_mtok: float = 15.0,
        overrides: Mapping[str, ModelPrice] = MappingProxyType({}),
    ) -> None:
        self._fallback = _own(ModelPrice(fallback_input_usd_per_mtok, fallback_output_usd_per_mtok))[0]
        self._overrides = {name.lower(): _own(price) for name, price in overrides.items()}
        self._known: dict[tuple[str, str], tuple[Rates, ...] | None] = {}
        self.unknown_models: Counter[str] = Counter()
        """Calls priced at the fallback, by `provider/model`; bounded."""

    def cost(self, provider: str, model: str, tokens: Tokens, at_ns: int) -> tuple[int, CostSource]:
        """Cost of a call, nano-dollars, and whether it was `computed` from a price or from the `fallback`.

        Args:
            at_ns: time of the call, nanoseconds since the Unix epoch.
        """
        key = (provider, model)
        found = self._known[key] if key in self._known else self._look_up(key)
        if found is not None:
            return _in_force(found, at_ns).cost(tokens), "computed"
        cost = self._fallback.cost(tokens)
        if cost:
            self._count(f"{provider}/{model}")
        return cost, "fallback"

    def _count(self, name: str) -> None:
        full = len(self.unknown_models) >= MAX_UNKNOWN and name not in self.unknown_models
        self.unknown_models["*" if full else name] += 1

    def _look_up(self, key: tuple[str, str]) -> tuple[Rates, ...] | None:
        if len(self._known) >= MAX_KNOWN:
            del self._known[next(iter(self._known))]
        provider, model = key[0].lower(), key[1].lower()
        found = self._overrides.get(f"{provider}/{model}") or self._overrides.get(model) or _table(provider, model)
        self._known[key] = found
        return found


def _in_force(found: tuple[Rates, ...], at_ns: int) -> Rates:
    """The prices at a time: the last whose condition holds comes first in `found`."""
    if len(found) > 1:
        try:
            at = _EPOCH + timedelta(microseconds=at_ns // 1000)
        except OverflowError:
            return found[-1]
        for rates in found:
            if rates.active is None or rates.active(at):
                return rates
    return found[-1]


def _candidates(provider: str, model: str) -> Iterable[tuple[str | None, str]]:
    """Where a model may be listed: with its provider, then with whichever provider its name belongs to."""
    names = [model, model.rpartition("/")[2]] if "/" in model else [model]
    for name in names:
        if provider:
            yield PROVIDER_ALIASES.get(provider, provider), name
        yield None, name


def _table(provider: str, model: str) -> tuple[Rates, ...] | None:
    if not model:
        return None
    for provider_id, name in _candidates(provider, model):
        try:
            _, info = data_snapshot.get_snapshot().find_provider_model(name, None, provider_id, None)
        except LookupError:
            continue
        found = _all_rates(info.prices)
        if found:
            return found
    return None


@lru_cache(maxsize=MAX_KNOWN)
def context_window(provider: str, model: str) -> int:
    """Input tokens that a model takes, from genai-prices' bundled table; 0 where it does not know."""
    for provider_id, name in _candidates(provider.lower(), model.lower()) if model else ():
        try:
            _, info = data_snapshot.get_snapshot().find_provider_model(name, None, provider_id, None)
        except LookupError:
            continue
        if info.context_window:
            return info.context_window
    return 0


def _all_rates(prices: Any) -> tuple[Rates, ...]:
    """genai-prices tries conditional prices last to first, and takes the first where none holds."""
    if not isinstance(prices, list):
        listed = [_rates(prices, None)]
    else:
        listed = [_rates(p.prices, p.constraint.active if p.constraint else None) for p in reversed(prices)]
    return tuple(rates for rates in listed if rates is not None)
