"""Prices: integer nano-dollars, never nothing for something."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

import pytest
from genai_prices import Usage, calc_price, data_snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from spanfuse_processor.core.pricing import MAX_KNOWN, MAX_UNKNOWN, Prices
from spanfuse_processor.core.rates import ModelPrice
from spanfuse_schemas import Tokens
from tests.support.effort import seconds

NOW_NS = 1_764_000_000_000_000_000
NOW = datetime.fromtimestamp(NOW_NS / 1e9, tz=UTC)


shared = Prices()


@pytest.fixture(scope="module")
def shared_prices() -> Prices:
    return shared


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


def every_model() -> list[tuple[str, str]]:
    """All that genai-prices has a price of tokens for, and finds by its id: provider and model."""
    listed = []
    for provider in data_snapshot.get_snapshot().providers:
        for model in provider.models:
            prices = model.get_prices(NOW)
            priced = prices.input_mtok is not None or prices.output_mtok is not None
            if priced and provider.find_model(model.id) is model:
                listed.append((provider.id, model.id))
    return listed


def test_every_model_of_the_table_costs_what_genai_prices_says(shared_prices: Prices) -> None:
    """Over two thousand models, with random tokens on both sides of every tier."""
    random, wrong = Random(7), []
    for provider, model in every_model():
        fresh, read, write, thought, said = (random.randrange(10 ** random.randrange(1, 7)) for _ in range(5))
        tokens = Tokens(
            input=fresh + read + write, output=said + thought, cache_read=read, cache_write=write, reasoning=thought
        )
        usage = Usage(
            input_tokens=tokens.input,
            output_tokens=tokens.output,
            cache_read_tokens=read,
            cache_write_tokens=write,
            output_reasoning_tokens=thought,
        )
        expected = calc_price(usage, model, provider_id=provider, genai_request_timestamp=NOW).total_price
        cost, source = shared_prices.cost(provider, model, tokens, NOW_NS)
        if source != "computed" or abs(cost - expected * 10**9) > 1:
            wrong.append((provider, model, cost, expected * 10**9))
    assert not wrong
    assert len(every_model()) > 1000


def test_a_reasoning_price_and_a_price_per_request_are_applied(shared_prices: Prices) -> None:
    """sonar-deep-research: $2 in, $8 out, $3 for reasoning; sonar: $1 in and out, and $12 for a thousand requests."""
    thought = Tokens(input=100, output=50, reasoning=40)
    assert shared_prices.cost("perplexity", "sonar-deep-research", thought, NOW_NS)[0] == 200_000 + 80_000 + 120_000
    assert shared_prices.cost("perplexity", "sonar", Tokens(input=100), NOW_NS)[0] == 100_000 + 12_000_000


counts = st.integers(0, 10**6)


@st.composite
def usages(draw: st.DrawFn) -> Tokens:
    fresh, read, write, said, thought = (draw(counts) for _ in range(5))
    return Tokens(
        input=fresh + read + write, output=said + thought, cache_read=read, cache_write=write, reasoning=thought
    )


KNOWN = [
    *MODELS,
    ("openai", "gpt-4o-mini"),
    ("perplexity", "sonar-deep-research"),
    ("acme", "unknown-7"),
    ("ollama", "x"),
]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(KNOWN), usages(), st.sampled_from(["input", "output"]), counts)
def test_more_tokens_never_cost_less(model: tuple[str, str], tokens: Tokens, kind: str, more: int) -> None:
    cost, _ = shared.cost(*model, tokens, NOW_NS)
    grown = tokens.model_copy(update={kind: getattr(tokens, kind) + more})
    assert 0 <= cost <= shared.cost(*model, grown, NOW_NS)[0]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["openai", "deepseek", "acme"]), usages())
def test_a_call_costs_the_sum_of_its_classes(provider: str, tokens: Tokens) -> None:
    """Where there are no tiers; a nano-dollar is lost to rounding at most for each part."""
    model = {"openai": "gpt-4o", "deepseek": "deepseek-chat", "acme": "acme-7"}[provider]
    fresh = tokens.input - tokens.cache_read - tokens.cache_write
    parts = [
        Tokens(input=fresh),
        Tokens(input=tokens.cache_read, cache_read=tokens.cache_read),
        Tokens(input=tokens.cache_write, cache_write=tokens.cache_write),
        Tokens(output=tokens.output, reasoning=tokens.reasoning),
    ]
    cost = shared.cost(provider, model, tokens, NOW_NS)[0]
    assert 0 <= sum(shared.cost(provider, model, part, NOW_NS)[0] for part in parts) - cost <= len(parts)


def test_by_hand(shared_prices: Prices) -> None:
    """A written and a read cache of claude-sonnet-4-5 ($3, $3.75, $0.30, $15), and above its tier of 200,000 ($6, $7.50, $0.60,
    $22.50); gemini-2.5-pro above its own ($2.50, $0.25, $15)."""

    def cost(provider: str, model: str, **tokens: int) -> int:
        return shared_prices.cost(provider, model, Tokens(**tokens), NOW_NS)[0]

    claude = {"input": 1500, "cache_read": 1024, "cache_write": 300, "output": 50}
    assert cost("anthropic", "claude-sonnet-4-5", **claude) == 176 * 3000 + 1024 * 300 + 300 * 3750 + 50 * 15_000
    large = {"input": 300_000, "cache_read": 100_000, "cache_write": 50_000, "output": 1000}
    assert (
        cost("anthropic", "claude-sonnet-4-5", **large) == 150_000 * 6000 + 100_000 * 600 + 50_000 * 7500 + 22_500_000
    )
    tiered = {"input": 250_000, "cache_read": 50_000, "output": 2000}
    assert cost("gcp.gemini", "gemini-2.5-pro", **tiered) == 200_000 * 2500 + 50_000 * 250 + 2000 * 15_000


@pytest.mark.parametrize("provider", ["ollama", "Ollama", "vllm", "lm_studio"])
def test_models_of_servers_of_ones_own_cost_nothing_unless_a_price_is_given(provider: str) -> None:
    prices = Prices(overrides={f"{provider}/priced": ModelPrice(1, 2)})
    tokens = Tokens(input=1000, output=10)
    assert prices.cost(provider, "deepseek-r1:8b", tokens, NOW_NS) == (0, "computed")
    assert prices.cost(provider, "priced", tokens, NOW_NS) == (1_020_000, "computed")
    assert not prices.unknown_models


@pytest.mark.parametrize(
    ("provider", "model"),
    [("openai", "deepseek.v3"), ("anthropic", "gpt-9-new"), ("openai", "llama3.1:8b"), ("", "my-claude-clone")],
)
def test_a_model_is_never_priced_as_one_of_its_protocols_vendor(
    shared_prices: Prices, provider: str, model: str
) -> None:
    assert shared_prices.cost(provider, model, Tokens(input=1), NOW_NS)[1] == "fallback"


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
