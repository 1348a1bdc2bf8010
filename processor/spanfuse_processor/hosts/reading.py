"""How every host reads spans: with the prices of its configuration, its key, and the attributes that name somebody."""

from __future__ import annotations

from spanfuse_processor.config import Config, Pricing
from spanfuse_processor.core.pricing import Prices
from spanfuse_processor.core.rates import ModelPrice
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_processor.otlp.synonyms import load_synonyms
from spanfuse_processor.otlp.whose import Whose
from spanfuse_schemas import Tokens
from spanfuse_schemas.wording import share_key, use_synonyms


def normaliser_of(config: Config, prices: Prices) -> Normaliser:
    """Makes calls of spans as the configuration says."""
    _prepare(config)
    whose = config.identity
    known = Whose(whose.session, whose.user, whose.team, whose.agent, whose.session_within)
    return Normaliser(prices, known, turns=_turns_count(config))


def _turns_count(config: Config) -> bool:
    """Whether anybody is told of user turns that are far from the first, which takes time to measure."""
    modes = [override.rules.get("safety_drift", {}).get("mode", "off") for override in config.policies]
    return any(mode != "off" for mode in (config.detectors.safety_drift.mode, *modes))


def _prepare(config: Config) -> None:
    """Set what holds for all reading of this process: the key of hashes, and synonyms where a rule asks for them."""
    secret = config.service.fingerprint_key.get_secret_value()
    if secret:
        share_key(secret)
    overrides = (override.rules.get("near", {}) for override in config.policies)
    if config.detectors.near.semantic or any(near.get("semantic") for near in overrides):
        use_synonyms(load_synonyms())


def prices_of(pricing: Pricing) -> Prices:
    """The prices: the configuration's own, else the list prices, else its fallback."""
    overrides = {name: ModelPrice(**model.model_dump()) for name, model in pricing.models.items()}
    prices = Prices(pricing.fallback_input_usd_per_mtok, pricing.fallback_output_usd_per_mtok, overrides)
    # The list prices are read with the first look-up. That must not be the first call's, whose loop somebody waits to stop.
    prices.cost("openai", "gpt-4o", Tokens(), 0)
    return prices
