"""Field reports: failures of the provider are no loops, and their storms are stopped all the same."""

from __future__ import annotations

import pytest

from tests.support.road import play, run
from tests.support.script import agent, prompt, refused, tool, wait


def test_r021_a_few_refusals_with_growing_gaps_are_patience() -> None:
    """Four refusals and then an answer are how a provider's limit is kept, no loop."""
    played = run(refused(), wait(1), refused(), wait(3), refused(), wait(7), refused(), wait(15), prompt("hello"))
    assert not played.stops
    assert not played.rules


def test_r021_forty_refusals_in_ten_seconds_are_a_storm_and_no_repeat() -> None:
    """Hammering a provider opens the breaker under a rule of its own."""
    played = run(*[refused()] * 40, every=0.25)
    assert played.rule == "errors"
    assert played.rules == {"errors"}


def test_r043_nested_retries_of_one_request_are_a_storm() -> None:
    """Three layers that each retry make 45 requests of one; the storm is stopped after the first few."""
    played = run(*[refused("RateLimitError", "Error code: 429 - slow down")] * 45, every=0.66, parent="b" * 16)
    assert played.rule == "errors"
    assert played.after is not None
    assert played.after <= 10


@pytest.mark.parametrize("error", ["400", "context_length_exceeded"])
def test_r116_mistakes_of_the_caller_are_not_the_providers(error: str) -> None:
    """A prompt that is too long says nothing about the provider, and nothing about other sessions."""
    spans = [*agent(*[refused(error)] * 10, session="one"), *agent(prompt("hello"), session="two", at=30)]
    played = play(spans)
    assert "errors" not in played.rules
    assert "two" not in played.stops


def test_r044_a_provider_that_refuses_a_whole_team_is_no_loop_of_any_session() -> None:
    """Fifteen agents that meet the provider's limit together are held back for a while; none is blamed for a loop."""
    spans = [
        s
        for i in range(15)
        for s in agent(
            *[refused()] * 10, session=f"s{i}", team="t", every=5.5, at=0.1 * i, task=f"Ticket {i}.", done=False
        )
    ]
    played = play(spans)
    assert {d.rule for d in played.detections if not d.rule.startswith(("repeat.", "near.", "cycle"))} == played.rules
    assert all(s.decision.expires_at_ns is not None for s in played.stops.values())


def test_r021_a_tool_that_meets_a_rate_limit_between_results_is_no_loop() -> None:
    """A tool that is asked again after its own limit, and then answers, was worth asking again."""
    limited = tool("search", q="a").fails("429 Too Many Requests")
    played = run(limited, wait(20), limited, wait(40), tool("search", q="a") >> "3 rows found")
    assert not played.stops
