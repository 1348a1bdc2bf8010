"""What a model call used and cost: as its span says, else by prices and sizes; and what is not known of either is told."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any, Final, Protocol

from spanfuse_processor.otlp.content import Content
from spanfuse_processor.otlp.dialects.dialect import Dialect
from spanfuse_processor.otlp.span import Span
from spanfuse_processor.otlp.usage import Ending, read_usage, reported_cost
from spanfuse_schemas import Tokens
from spanfuse_schemas.call import CostSource

log = logging.getLogger(__name__)

MAX_TOLD: Final = 64
"""Models without a price that are logged, each once."""

_NOTHING: Final = Tokens()


class Pricing(Protocol):
    """What a call costs: `spanfuse_processor.core.pricing.Prices`, or whatever else can tell."""

    def cost(self, provider: str, model: str, tokens: Tokens, at_ns: int) -> tuple[int, CostSource]:
        """Nano-dollars, and where they come from."""


class Costs:
    """Tokens and cost of model calls.

    Args:
        prices: what a call costs where its span does not say.
        counters: gets `usage_estimated`, `unpriced` (calls) and `unpriced_tokens` (theirs).
    """

    def __init__(self, prices: Pricing, counters: Counter[str]) -> None:
        self._prices = prices
        self._counters = counters
        self._told: set[tuple[str, str]] = set()

    def of(
        self, span: Span, dialect: Dialect, content: Content, ended: Ending, model: tuple[str, str], at_ns: int
    ) -> dict[str, Any]:
        """The fields of `Call` for tokens and cost. A failure has those that were reported.

        Args:
            model: provider and model.
            at_ns: time of the call, nanoseconds since the Unix epoch.
        """
        used, estimated = read_usage(span, dialect, content.messages, content.reply, ended, self._counters)
        source: CostSource = "reported"
        cost = reported_cost(span, dialect, self._counters)
        if cost is None:
            if ended == "failed" and used == _NOTHING:
                return {}
            cost, source = self._prices.cost(*model, used, at_ns)
            if source == "fallback" and used != _NOTHING:
                self._unpriced(model, used)
        if estimated:
            self._counters["usage_estimated"] += 1
            source = source if cost else "unknown"
        return {"tokens": used, "usage_estimated": estimated, "cost_nano_usd": cost, "cost_source": source}

    def _unpriced(self, model: tuple[str, str], used: Tokens) -> None:
        """Count a call at the fallback price, and tell of its model once."""
        self._counters["unpriced"] += 1
        self._counters["unpriced_tokens"] += used.input + used.output
        if model not in self._told and len(self._told) < MAX_TOLD:
            self._told.add(model)
            log.warning(
                "no price is known of provider %r, model %r: its calls are charged at the fallback price of `pricing`, which "
                "takes prices of models as well",
                *model,
            )
