"""Field reports: an alert is told once for what happened, and again when it happens again."""

from __future__ import annotations

import pytest

from spanfuse_processor.core.pipeline import Pipeline
from tests.support.agents import policy
from tests.support.road import play, run
from tests.support.script import Call, Item, agent, prompt, tool

TOPICS = [f"{a} of {b}" for a in ("tides", "moss", "clocks", "rope", "salt", "bees", "chalk") for b in "abcdefgh"]


def asks(n: int) -> list[Item]:
    return [prompt(f"What is known about {t}?") for t in TOPICS[:n]]


def test_r125_a_budget_that_is_crossed_is_told_once_whatever_goes_on() -> None:
    """Fifty further calls of an agent that is not held back add nothing to the one alert and the one decision."""
    played = run(Call(cost_usd=0.1), *asks(55), rules=policy(budget_session={"limit_usd": 0.5}), obey=False)
    assert [d.rule for d in played.detections] == ["budget.session"]
    assert len(played.decisions) == 1


def test_r125_a_loop_that_goes_on_is_told_once_within_its_cooldown() -> None:
    """A loop in which nothing changes is one alert, not one per call."""
    played = run(*[tool("ls", path="/d") >> "x"] * 40, obey=False)
    told = [(d.rule, d.action) for d in played.detections if not d.conditional]
    assert len(told) == len(set(told))


def test_r126_each_session_has_an_alert_of_its_own() -> None:
    """That one has crossed its budget says nothing of the next."""
    rules = policy(budget_session={"limit_usd": 0.3})
    spans = [s for name in "ab" for s in agent(Call(cost_usd=0.1), *asks(6), session=name)]
    played = play(spans, rules)
    assert sorted(d.session for d in played.detections) == ["a", "b"]


def test_r126_a_key_that_was_reset_is_armed_again() -> None:
    """After a reset the same session is told of once more when it crosses its budget again."""
    rules = policy(budget_session={"limit_usd": 0.3})
    spans = agent(Call(cost_usd=0.1), *asks(9), done=False)
    first = play(spans[:4], rules)
    state = first.states["s"]
    Pipeline(rules).reset(state, state.last_ns, "ops")
    again = play(spans[4:], rules, states=first.states)
    assert [d.rule for d in first.detections] == [d.rule for d in again.detections] == ["budget.session"]


def test_r128_an_alert_says_who_what_how_much_and_what_next() -> None:
    """The body names the session, agent, rule, count, spans and the money since it began."""
    played = run(Call(cost_usd=0.2), *[tool("ls", path="/d") >> "x"] * 6, session="run-9", name="lister", team="t")
    found = next(d for d in played.detections if not d.conditional)
    assert (found.session, found.agent, found.team) == ("run-9", "lister", "t")
    assert found.evidence.count == 3
    assert found.evidence.cost_nano_usd == pytest.approx(0.6e9, abs=0.21e9)
    assert found.evidence.first_span_id
    assert found.evidence.trace_id == "a" * 32
    assert found.message.rstrip(".").count(" ") > 5


def test_r131_a_rule_in_shadow_says_what_it_would_have_done_and_does_nothing() -> None:
    """The record keeps the block, and every call goes through."""
    played = run(*[tool("ls", path="/d") >> "x"] * 6, rules=policy(**{"repeat_no_progress": {"mode": "shadow"}}))
    assert not played.stops
    assert {(d.rule, d.action, d.mode) for d in played.detections} >= {("repeat.no_progress", "block", "shadow")}
    assert not [d for d in played.decisions if d.action == "block"]
