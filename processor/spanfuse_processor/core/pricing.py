"""What a call costs: integer nano-dollars, from genai-prices' bundled table or from the operator's own prices.

Nothing is fetched, no clock is read: the moment of the call decides which price was in force.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from genai_prices import data_snapshot
from genai_prices.types import ModelInfo

from spanfuse_processor.core.rates import ModelPrice, Rates, listed, own
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

LOCAL_PROVIDERS: Final = frozenset(
    {
        "ollama",
        "ollama_chat",
        "vllm",
        "hosted_vllm",
        "sglang",
        "tgi",
        "lm_studio",
        "lmstudio",
        "llamacpp",
        "llama.cpp",
        "llama_cpp",
        "llamafile",
        "localai",
        "gpt4all",
        "mlx",
    }
)
"""Servers of models on machines of one's own, as instrumentations name them. Nobody sends a bill for their tokens: they cost
nothing unless an override has a price."""

MAX_KNOWN: Final = 4096
"""Models whose prices are kept at hand."""
MAX_UNKNOWN: Final = 1024
"""Unknown models counted by name; later ones are counted together as `*`."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_NO_BILL: Final = own(ModelPrice(0, 0))


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
        self._fallback = own(ModelPrice(fallback_input_usd_per_mtok, fallback_output_usd_per_mtok))[0]
        self._overrides = {name.lower(): own(price) for name, price in overrides.items()}
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
        if tokens.input or tokens.output:
            self._count(f"{provider}/{model}")
        return self._fallback.cost(tokens), "fallback"

    def _count(self, name: str) -> None:
        full = len(self.unknown_models) >= MAX_UNKNOWN and name not in self.unknown_models
        self.unknown_models["*" if full else name] += 1

    def _look_up(self, key: tuple[str, str]) -> tuple[Rates, ...] | None:
        if len(self._known) >= MAX_KNOWN:
            del self._known[next(iter(self._known))]
        provider, model = key[0].lower(), key[1].lower()
        found = self._overrides.get(f"{provider}/{model}") or self._overrides.get(model)
        if found is None:
            local = provider in LOCAL_PROVIDERS or model.partition("/")[0] in LOCAL_PROVIDERS
            found = _NO_BILL if local else _table(provider, model)
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


def _candidates(provider: str, model: str) -> Iterable[tuple[str, str]]:
    """Where a model may be listed: with its provider, then with the provider that its name begins with (`groq/…`), then with
    whichever provider its name belongs to."""
    maker, slash, rest = model.partition("/")
    names = [model, model.rpartition("/")[2]] if slash else [model]
    if provider:
        yield from ((provider, name) for name in names)
    if slash:
        yield maker, rest
    yield from (("", name) for name in names)


def _listed(provider: str, model: str) -> Iterable[ModelInfo]:
    """The entries of genai-prices for a model, the best first. Its own look-up remembers every name that it was asked for."""
    providers = data_snapshot.get_snapshot().providers
    for owner, name in _candidates(provider, model) if model else ():
        if owner:
            found = data_snapshot.find_provider_by_id(providers, PROVIDER_ALIASES.get(owner, owner))
        else:
            found = next((p for p in providers if p.model_match is not None and p.model_match.is_match(name)), None)
        info = found.find_model(name, all_providers=providers) if found else None
        if info is not None:
            yield info


def _table(provider: str, model: str) -> tuple[Rates, ...] | None:
    return next((rates for info in _listed(provider, model) if (rates := _all_rates(info.prices))), None)


@lru_cache(maxsize=MAX_KNOWN)
def context_window(provider: str, model: str) -> int:
    """Input tokens that a model takes, from genai-prices' bundled table; 0 where it does not know."""
    windows = (info.context_window for info in _listed(provider.lower(), model.lower()))
    return next((window for window in windows if window), 0)


def _all_rates(prices: Any) -> tuple[Rates, ...]:
    """genai-prices tries conditional prices last to first, and takes the first where none holds."""
    if not isinstance(prices, list):
        found = [listed(prices, None)]
    else:
        found = [listed(p.prices, p.constraint.active if p.constraint else None) for p in reversed(prices)]
    return tuple(rates for rates in found if rates is not None)
