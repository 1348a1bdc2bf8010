"""Field reports: unknown is never nothing, nothing is counted twice, and a failure is no expense."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.pricing import Prices
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_processor.otlp.span import Span
from spanfuse_schemas import Call, CallBatch, Policy
from tests.otlp.fixtures import NOW_NS, chat, says
from tests.support.agents import policy
from tests.support.road import run
from tests.support.script import Call as Usage
from tests.support.script import Refusal, prompt

DOLLAR = 10**9


def used(**tokens: Any) -> dict[str, Any]:
    """Attributes of usage; those that are none are not reported."""
    names = {"input": "input_tokens", "output": "output_tokens", "read": "cache_read.input_tokens"}
    return {f"gen_ai.usage.{names[key]}": value for key, value in tokens.items()}


def asked(model: str, provider: str = "openai") -> dict[str, Any]:
    return {"gen_ai.provider.name": provider, "gen_ai.request.model": model, "gen_ai.response.model": model}


def read(*spans: Span) -> tuple[list[Call], Normaliser]:
    normaliser = Normaliser(Prices())
    return list(normaliser.batch(spans, NOW_NS + 10**12).calls), normaliser


def call(**more: Any) -> Call:
    (found,), _ = read(chat(**more))
    return found


def stopped(calls: list[Call], rules: Policy) -> tuple[int, str] | None:
    """After how many calls of a session the next is refused, and by which rule."""
    state = SessionState("s")
    for number, one in enumerate(calls, 1):
        Pipeline(rules).process(CallBatch(calls=(one,)), lambda _: state, source="field", offset=number)
        if state.decision is not None:
            return number, state.decision.rule
    return None


def test_r067_an_unknown_model_costs_the_fallback_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Five dollars in and fifteen out per million; what was charged so is counted, in calls and in tokens."""
    spans = [chat(id=n, at=n, attributes=asked("new-x-9", "acme") | used(input=10**6, output=10**5)) for n in (1, 2, 3)]
    with caplog.at_level(logging.WARNING):
        calls, normaliser = read(*spans)
    assert [(c.cost_nano_usd, c.cost_source) for c in calls] == [(6.5 * DOLLAR, "fallback")] * 3
    assert (normaliser.counters["unpriced"], normaliser.counters["unpriced_tokens"]) == (3, 3 * 1_100_000)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "no price is known of provider 'acme', model 'new-x-9'"
    ]


def test_r067_a_budget_binds_an_agent_of_an_unknown_model() -> None:
    """At the fallback price each call costs 6.5 dollars: the third is the last that fifteen dollars let through."""
    known = {"session.id": "s"} | asked("new-x-9", "acme") | used(input=10**6, output=10**5)
    calls, _ = read(*(chat(id=n, at=n, attributes=known) for n in range(1, 6)))
    assert stopped(calls, policy(budget_session={"limit_usd": 15})) == (3, "budget.session")


@pytest.mark.parametrize(("input", "of"), [(17111, "inclusive"), (9, "exclusive")])
def test_r068_cached_tokens_are_paid_once(input: int, of: str) -> None:
    """Nine tokens are new, 17102 come from the cache, and ten are written, whichever way the provider counts them."""
    found = call(attributes=asked("gpt-4o-mini") | used(input=input, output=10, read=17102))
    assert (found.tokens.input, found.tokens.cache_read) == (17111, 17102)
    assert found.cost_nano_usd == 9 * 150 + 17102 * 75 + 10 * 600


def test_r070_a_model_behind_a_proxy_is_not_priced_as_that_of_the_vendor_whose_protocol_it_speaks() -> None:
    """deepseek.v3 on OpenAI's protocol: no price is known, and the figure says so."""
    found = call(attributes=asked("deepseek.v3", "openai") | used(input=956_000, output=0))
    assert (found.cost_nano_usd, found.cost_source) == (4.78 * DOLLAR, "fallback")


def test_r070_a_model_that_is_known_is_priced_as_itself_behind_any_proxy() -> None:
    """The answering model's own list price holds, not that of the protocol's vendor."""
    proxied, direct = (
        call(attributes=asked("claude-sonnet-4-5", name) | used(input=1000, output=0))
        for name in ("openai", "anthropic")
    )
    assert (proxied.cost_nano_usd, proxied.cost_source) == (direct.cost_nano_usd, "computed") == (3_000_000, "computed")


def test_r071_streams_without_usage_are_estimated_and_counted_and_limits_of_calls_hold() -> None:
    """Twenty streams that report no tokens: each is marked, and the limit of steps trips all the same."""
    silent = {"gen_ai.usage.input_tokens": None, "gen_ai.usage.output_tokens": None}
    spans = [
        chat(
            id=n, at=n, attributes=silent | {"session.id": "s"}, input=[says(f"Question {n}")], output=[says("x" * 400)]
        )
        for n in range(1, 21)
    ]
    calls, normaliser = read(*spans)
    assert normaliser.counters["usage_estimated"] == 20
    assert all(c.usage_estimated and c.tokens.output == 100 and c.cost_nano_usd > 0 for c in calls)
    assert stopped(calls, policy(limits={"max_steps": 10})) == (10, "limits.max_steps")
    blind = chat(id=1, attributes=silent)
    (unknown,), _ = read(blind)
    assert (unknown.usage_estimated, unknown.cost_nano_usd, unknown.cost_source) == (True, 0, "unknown")


@pytest.mark.parametrize(
    "how",
    [
        {"error": "cancelled"},
        {"error": "", "attributes": {"error.type": "asyncio.exceptions.CancelledError"}},
        {"error": "", "attributes": {"error.type": "GeneratorExit"}},
        {"attributes": {"gen_ai.response.finish_reasons": ["cancelled"]}},
    ],
)
def test_r072_what_a_cancelled_stream_reports_is_a_lower_bound(how: dict[str, Any]) -> None:
    """It reported one token of output, and had brought a hundred: they count, and the usage is marked as partial."""
    attributes = how.get("attributes", {}) | used(input=35, output=1)
    alone = call(**how | {"attributes": attributes})
    assert (alone.tokens.input, alone.tokens.output, alone.usage_estimated) == (35, 1, True)
    shown = call(**how | {"attributes": attributes}, output=[says("x" * 400, "assistant")])
    assert (shown.tokens.input, shown.tokens.output, shown.usage_estimated) == (35, 100, True)


def test_r072_a_stream_that_was_cancelled_before_it_brought_anything_is_unknown_not_free() -> None:
    """Zeros that nobody measured are marked."""
    silent = {"gen_ai.usage.input_tokens": None, "gen_ai.usage.output_tokens": None}
    found = call(error="cancelled", attributes=silent)
    assert (found.usage_estimated, found.cost_nano_usd, found.cost_source) == (True, 0, "unknown")


def test_r073_a_failure_without_usage_cost_nothing_and_its_retry_is_let_through() -> None:
    """A connection that broke is known to have cost nothing; the budget has room for the retry."""
    silent = {"gen_ai.usage.input_tokens": None, "gen_ai.usage.output_tokens": None}
    lost = call(error="", attributes=silent | {"error.type": "ECONNRESET"}, input=[says("x" * 4000)])
    assert (lost.cost_nano_usd, lost.usage_estimated, lost.tokens.input) == (0, False, 0)
    played = run(
        Usage(cost_usd=0.01), Refusal("ECONNRESET"), prompt("Again."), rules=policy(budget_session={"limit_usd": 0.015})
    )
    assert not played.stops


def test_r073_a_failure_costs_what_was_reported_of_it() -> None:
    """A provider that bills a refused answer says so in its usage, or in its cost."""
    billed = call(error="", attributes={"error.type": "ContentFilter"} | used(input=1000, output=0))
    assert (billed.cost_nano_usd, billed.usage_estimated) == (150_000, False)
    silent = {"gen_ai.usage.input_tokens": None, "gen_ai.usage.output_tokens": None}
    stated = call(error="", attributes=silent | {"error.type": "X", "gen_ai.usage.cost": 0.25})
    assert (stated.cost_nano_usd, stated.cost_source) == (0.25 * DOLLAR, "reported")


@pytest.mark.parametrize("model", [("gpt-4o-mini", "openai", "computed"), ("new-x-9", "acme", "fallback")])
def test_a_reported_cost_of_nothing_is_no_price(model: tuple[str, str, str]) -> None:
    """Some write 0 on failures and for models that they do not know."""
    name, provider, source = model
    found = call(attributes=asked(name, provider) | used(input=1000, output=0) | {"gen_ai.usage.cost": 0})
    assert found.cost_source == source
    assert found.cost_nano_usd > 0


@pytest.mark.parametrize(
    ("provider", "model"), [("ollama", "llama3.1:8b"), ("openai", "ollama/deepseek-r1:8b"), ("vllm", "x")]
)
def test_a_model_on_a_machine_of_ones_own_costs_nothing(provider: str, model: str) -> None:
    """Nobody sends a bill for it, so that no budget is spent; its tokens count."""
    found = call(attributes=asked(model, provider) | used(input=1000, output=10))
    assert (found.cost_nano_usd, found.cost_source, found.tokens.input) == (0, "computed", 1000)
