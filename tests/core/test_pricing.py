"""Prices: integer nano-dollars, never nothing for something."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from genai_prices import Usage, calc_price
from hypothesis import given, settings
from hypothesis import strategies as st

from spanfuse_processor.core.pricing import MAX_KNOWN, MAX_UNKNOWN, Prices
from spanfuse_processor.core.rates import ModelPrice
from spanfuse_schemas import Tokens
from tests.support.effort import seconds

NOW_NS = 1_764_000_000_000_000_000
NOW = datetime.fromtimestamp(NOW_NS / 1e9, tz=UTC)


@pytest.fixture(scope="module")
def shared_prices() -> Prices:
    return Prices()


def test_each_class_of_tokens_has_its_own_price(shared_prices: Prices) -> None:
    """gpt-4o-mini: $0.15 in, $0.075 read from cache, $0.60 out, per million."""
    tokens = Tokens(input=1200, output=50, cache_read=1024, reasoning=20)
    cost, source = shared_prices.cost("openai", "gpt-4o-mini-2024-07-18", tokens, NOW_NS)
    assert (cost, source) == (176 * 150 + 1024 * 75 + 50 * 600, "computed")


def test_writing_to_the_cache_is_dearer_than_reading_from_it(shared_prices: Prices) -> None:
    written = shared_prices.cost("anthropic", "claude-sonnet-4-5", Tokens(input=300, cache_write=300), NOW_NS)
    assert written == (300 * 3750, "computed")
    read = shared_prices.cost("anthropic", "claude-sonnet-4-5", Tokens(input=1024, cache_read=1024), NOW_NS)
    assert read == (1024 * 300, "computed")


def test_beyond_a_tier_of_input_tokens_all_tokens_cost_more(shared_prices: Prices) -> None:
    below, _ = shared_prices.cost("gcp.gemini", "gemini-2.5-pro", Tokens(input=200_000), NOW_NS)
    above, _ = shared_prices.cost("gcp.gemini", "gemini-2.5-pro", Tokens(input=200_001), NOW_NS)
    assert (below, above) == (200_000 * 1250, 200_001 * 2500)


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("aws.bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("azure.ai.openai", "gpt-4o"),
        ("gcp.vertex_ai", "gemini-2.5-flash"),
        ("mistral_ai", "mistral-large-latest"),
        ("x_ai", "grok-4"),
        ("", "gpt-4o"),
        ("some-gateway", "gpt-4o"),
        ("litellm", "openai/gpt-4o"),
    ],
)
def test_a_known_model_is_found_under_every_name_of_its_provider(
    shared_prices: Prices, provider: str, model: str
) -> None:
    cost, source = shared_prices.cost(provider, model, Tokens(input=1000, output=1000), NOW_NS)
    assert source == "computed"
    assert cost > 0


def test_an_unknown_model_costs_the_fallback_and_is_counted() -> None:
    prices = Prices(fallback_input_usd_per_mtok=2, fallback_output_usd_per_mtok=8)
    assert prices.cost("acme", "acme-7", Tokens(input=10, output=5), NOW_NS) == (10 * 2000 + 5 * 8000, "fallback")
    assert prices.cost("", "", Tokens(output=1), NOW_NS) == (8000, "fallback")
    assert prices.unknown_models == {"acme/acme-7": 1, "/": 1}


def test_an_override_wins_with_its_provider_before_without() -> None:
    prices = Prices(
        overrides={"gpt-4o": ModelPrice(1, 2), "azure/GPT-4o": ModelPrice(3, 4, cache_read_usd_per_mtok=0.5)}
    )
    tokens = Tokens(input=10, output=1, cache_read=4)
    assert prices.cost("openai", "gpt-4o", tokens, NOW_NS) == (10 * 1000 + 2000, "computed")
    assert prices.cost("azure", "gpt-4o", tokens, NOW_NS) == (6 * 3000 + 4 * 500 + 4000, "computed")


def test_the_price_in_force_at_the_time_of_the_call_counts(shared_prices: Prices) -> None:
    """o3 became cheaper on 2025-06-10."""
    before = int(datetime(2025, 6, 1, tzinfo=UTC).timestamp()) * 10**9
    after = int(datetime(2025, 7, 1, tzinfo=UTC).timestamp()) * 10**9
    costs = [shared_prices.cost("openai", "o3", Tokens(input=1000), at)[0] for at in (before, after)]
    assert costs == [1000 * 10_000, 1000 * 2000]


def test_nothing_costs_nothing_and_a_token_costs_something(shared_prices: Prices) -> None:
    assert shared_prices.cost("openai", "gpt-4o", Tokens(), NOW_NS)[0] == 0
    for provider, model in [("openai", "gpt-4o-mini"), ("acme", "x")]:
        assert shared_prices.cost(provider, model, Tokens(input=1), NOW_NS)[0] > 0


@pytest.mark.parametrize("at_ns", [0, -1, 2**63, 10**30])
def test_no_time_is_too_odd(shared_prices: Prices, at_ns: int) -> None:
    assert shared_prices.cost("openai", "o3", Tokens(input=1), at_ns)[0] > 0


MODELS = [
    ("openai", "gpt-4o"),
    ("anthropic", "claude-sonnet-4-5"),
    ("google", "gemini-2.5-pro"),
    ("deepseek", "deepseek-chat"),
]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(MODELS), st.tuples(*[st.integers(0, 300_000)] * 4))
def test_the_sums_are_those_of_genai_prices(model: tuple[str, str], parts: tuple[int, int, int, int]) -> None:
    fresh, read, write, output = parts
    tokens = Tokens(input=fresh + read + write, output=output, cache_read=read, cache_write=write)
    usage = Usage(input_tokens=tokens.input, output_tokens=output, cache_read_tokens=read, cache_write_tokens=write)
    expected = calc_price(usage, model[1], provider_id=model[0], genai_request_timestamp=NOW).total_price
    assert abs(Prices().cost(*model, tokens, NOW_NS)[0] - int(expected * 10**9)) <= 1


def test_names_nobody_knows_do_not_fill_the_memory() -> None:
    prices = Prices()
    for i in range(MAX_KNOWN + 100):
        prices.cost("acme", f"acme-{i}", Tokens(input=1), NOW_NS)
    assert len(prices.unknown_models) <= MAX_UNKNOWN + 1
    assert prices.unknown_models["*"] == MAX_KNOWN + 100 - MAX_UNKNOWN
    assert len(prices._known) <= MAX_KNOWN


def test_a_cached_price_takes_microseconds(shared_prices: Prices) -> None:
    """The aim is under 10 µs a call; the bound leaves room for a busy machine."""
    tokens = Tokens(input=1200, output=50, cache_read=1024)

    def look_up() -> None:
        for _ in range(1000):
            shared_prices.cost("anthropic", "claude-sonnet-4-5", tokens, NOW_NS)

    assert seconds(look_up, rounds=20) < 1000 * 30e-6
