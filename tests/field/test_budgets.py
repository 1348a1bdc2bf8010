"""Field reports: absolute caps hold, whoever asks and under whatever name."""

from __future__ import annotations

import pytest

from tests.support.agents import policy
from tests.support.road import play, run
from tests.support.script import Call, Item, agent, prompt, tool

SUBJECTS = [
    f"{a} {b}" for a in ("tides", "moss", "clocks", "rope", "salt") for b in ("north", "south", "east", "west", "sea")
]


def asks(n: int) -> list[Item]:
    return [prompt(f"Tell me about {subject}.") for subject in SUBJECTS[:n]]


def test_r025_a_cap_holds_outside_the_framework_that_forgot_its_own() -> None:
    """With three calls allowed, the fourth is refused, whatever the framework thinks of its limit."""
    played = run(*asks(6), rules=policy(limits={"max_steps": 3}))
    assert (played.after, played.rule) == (3, "limits.max_steps")


@pytest.mark.parametrize("session", ["s", None])
def test_r049_a_worker_that_comes_back_under_another_name_goes_on_counting(session: str | None) -> None:
    """A respawned worker of the same session is under the same limit."""
    first = agent(*asks(10), session=session, name="x", done=False)
    second = agent(*asks(20)[10:], session=session, name="x-2", at=30, done=False)
    played = play([*first, *second], policy(limits={"max_steps": 15}))
    assert played.after == 15


def test_r134_calls_without_any_id_are_capped_by_their_trace() -> None:
    """Where nothing names a session, its trace is one, and says that it is."""
    played = play(agent(*asks(7), session=None), policy(limits={"max_steps": 5}))
    (stop,) = played.stops.values()
    assert stop.after == 5
    assert stop.session == f"trace:{'a' * 32}"


def test_r135_the_call_in_flight_may_end_above_the_cap_and_the_next_is_refused() -> None:
    """The cap is crossed by at most the call in flight; what was spent is said, and only a reset releases it."""
    rules = policy(budget_session={"limit_usd": 1.0})
    played = run(Call(cost_usd=0.33), *asks(3), Call(cost_usd=0.05), *asks(9)[3:], rules=rules)
    assert played.after == 4
    assert played.stop is not None
    assert played.stop.decision.evidence.value == pytest.approx(1.04)
    assert played.stop.decision.expires_at_ns is None


def test_r054_a_span_that_is_delivered_three_times_is_spent_once() -> None:
    """The producer's time-outs cost nothing."""
    spans = agent(Call(cost_usd=0.10), *asks(1), done=False)
    played = play([*spans, *spans, *spans])
    assert played.states["s"].cost_nano_usd == 100_000_000


def test_r019_exempt_tools_still_cost_money() -> None:
    """An exempt tool's model calls are paid from the budget like all."""
    rules = policy(budget_session={"limit_usd": 0.5}).model_validate(
        {
            "mode": "enforce",
            "rules": {"budget.session": {"limit_usd": 0.5}},
            "overrides": [{"tool": "wait", "rules": {"repeat.no_progress": {"exempt": True}}}],
        }
    )
    played = run(Call(cost_usd=0.1), *[tool("wait") >> []] * 12, rules=rules)
    assert (played.after, played.rule) == (5, "budget.session")
