"""The prices of a configuration, as every host applies them."""

from __future__ import annotations

from spanfuse_processor.config import Pricing
from spanfuse_processor.core.pricing import ModelPrice, Prices
from spanfuse_schemas import Tokens


def prices_of(pricing: Pricing) -> Prices:
    """The prices: the configuration's own, else the list prices, else its fallback."""
    overrides = {name: ModelPrice(**model.model_dump()) for name, model in pricing.models.items()}
    prices = Prices(pricing.fallback_input_usd_per_mtok, pricing.fallback_output_usd_per_mtok, overrides)
    # The list prices are read with the first look-up. That must not be the first call's, whose loop somebody waits to stop.
    prices.cost("openai", "gpt-4o", Tokens(), 0)
    return prices
