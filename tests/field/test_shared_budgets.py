"""Field reports: budgets that users, teams, agents and trees of agents share, kept from their spans."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.agents import SECOND, START_NS
from tests.support.purse import DAY, HOUR, MIDNIGHT, USD, budget
from tests.support.soft import Fleet


def test_r051_the_first_calls_of_a_user_nobody_has_seen_are_under_the_default_budget() -> None:
    """Eight at once are in flight before any has ended; from then on all are refused."""
    fleet = Fleet(budget("user", limit_usd=0.000001))
    told = fleet.play(fleet.wish(0.01, at=at, lasts=1, user="new") for at in (*[0] * 8, *[2] * 8))
    assert [t is None for t in told] == [True] * 8 + [False] * 8
    assert all(t is not None and t.key == "user:new" for t in told[8:])


@pytest.mark.parametrize(("guards", "lag_s"), [(1, 0.5), (3, 2.0), (8, 5.0)])
def test_r057_the_overshoot_is_at_most_the_calls_in_flight_and_the_rate_times_the_lag(
    guards: int, lag_s: float
) -> None:
    """A hundred calls a second at a cent each, half a second long, against ten dollars, whichever process asks."""
    fleet = Fleet(budget("team", limit_usd=10), lag_s=lag_s, guards=guards)
    rate, usd, lasts = 100, 0.01, 0.5
    fleet.play(fleet.wish(usd, at=i / rate, lasts=lasts, team="t") for i in range(60 * rate))
    over = (fleet.spent - 10 * USD) / USD
    in_flight = rate * lasts
    assert 0 < over <= (in_flight + rate * lag_s + 1) * usd
    assert fleet.most_in_flight <= in_flight + rate * lag_s + 1


def test_r058_the_default_budget_holds_for_a_user_created_on_the_fly() -> None:
    fleet = Fleet(budget("user", limit_usd=0.05))
    assert fleet.call(0.06, user="unseen") is None
    refusal = fleet.call(0.01, at=1, user="unseen")
    assert refusal is not None
    assert (refusal.key, refusal.rule) == ("user:unseen", "budget.user")
    assert fleet.call(0.01, at=2, user="other") is None


def test_r059_the_budget_of_the_user_holds_though_that_of_the_team_has_room() -> None:
    fleet = Fleet(budget("user", limit_usd=1), budget("team", limit_usd=100))
    fleet.call(1.01, user="u", team="t")
    refusal = fleet.call(0.01, at=1, user="u", team="t")
    assert refusal is not None
    assert (refusal.scope, refusal.key) == ("user", "user:u")
    assert fleet.call(0.01, at=2, user="v", team="t") is None


def test_r059_and_that_of_the_team_though_the_user_has_room() -> None:
    fleet = Fleet(budget("user", limit_usd=1), budget("team", limit_usd=1.5))
    for user in ("a", "b"):
        fleet.call(0.8, user=user, team="t")
    refusal = fleet.call(0.01, at=1, user="c", team="t")
    assert refusal is not None
    assert refusal.key == "team:t"


def test_r060_every_scope_of_a_call_can_be_shown_with_its_limit_and_what_remains() -> None:
    fleet = Fleet(
        *(budget(kind, limit_usd=limit) for kind, limit in (("user", 1), ("team", 2), ("agent", 3), ("global", 4)))
    )
    fleet.call(1.25, user="u", team="t", agent="a")
    rows = fleet.rows("user:u", "team:t", "agent:a", "global:*")
    assert [(r["scope"], r["spent"], r["limit"], r["remaining"], r["status"]) for r in rows] == [
        ("user:u", 1.25 * USD, USD, 0, "exhausted"),
        ("team:t", 1.25 * USD, 2 * USD, 0.75 * USD, "warning"),
        ("agent:a", 1.25 * USD, 3 * USD, 1.75 * USD, "ok"),
        ("global:*", 1.25 * USD, 4 * USD, 2.75 * USD, "ok"),
    ]


WHO: dict[str, Any] = {"trace": "c" * 32, "agent": "a", "user": "u", "team": "t"}


@pytest.mark.parametrize("kind", ["session", "trace", "agent", "user", "team", "global"])
@pytest.mark.parametrize(
    ("period", "after_s"), [("hourly", HOUR), ("daily", DAY), ("weekly", 7 * DAY), ("monthly", 31 * DAY)]
)
def test_r062_every_scope_is_released_by_the_end_of_its_period_without_an_operator(
    kind: str, period: str, after_s: int
) -> None:
    """No decision has to come for it: the block itself says when it is over."""
    fleet = Fleet(budget(f"{kind}/x", limit_usd=1, period=period))
    who: dict[str, Any] = {"session": "s", "parent": "d" * 16, **WHO}
    fleet.call(2, **who)
    refusal = fleet.call(0.1, at=1, **who)
    assert refusal is not None
    assert refusal.until is not None
    assert fleet.call(0.1, at=after_s, **who) is None
    assert fleet.call(0.1, at=after_s + 1, **who) is None, "and it was no probe"


def test_r063_the_day_begins_at_midnight_of_its_time_zone() -> None:
    """Singapore is eight hours ahead: spent up at 23:06 there, it is let through at 00:00:01 there."""
    fleet = Fleet(budget("user", limit_usd=1, period="daily", time_zone="Asia/Singapore"))
    midnight = MIDNIGHT - 8 * HOUR
    fleet.call(2, user="u")
    refusal = fleet.call(0.1, at=midnight - 1, user="u")
    assert refusal is not None
    assert refusal.decision.expires_at_ns == START_NS + midnight * SECOND
    assert "2025-06-16 00:00 Asia/Singapore" in refusal.message
    assert fleet.call(0.1, at=midnight + 1, user="u") is None


def test_r064_a_reset_reaches_every_process_and_an_older_block_that_comes_late_is_ignored() -> None:
    fleet = Fleet(budget("user", limit_usd=1), guards=2)
    fleet.call(2, user="u")
    assert [fleet.call(0.1, at=1, user="u") is None for _ in fleet.guards] == [False, False]
    (block,) = fleet.decisions
    fleet.reset("user:u", at=2)
    for subscriber in fleet.subscribers:
        subscriber.publish(block)
    assert [fleet.call(0.1, at=3, user="u") is None for _ in fleet.guards] == [True, True]


def test_r066_a_refusal_names_the_budget_its_scope_the_limit_what_was_spent_and_until_when() -> None:
    """The only budget is everybody's; who asks why is told so, with the numbers that enforce it."""
    fleet = Fleet(budget("global/daily", limit_usd=1, period="daily"))
    fleet.call(1.25, user="u")
    refusal = fleet.call(0.1, at=1, user="u")
    assert refusal is not None
    assert "global:* is blocked by budget.global/daily" in str(refusal)
    assert "All together spent $1.2500 of $1.0000 until 2025-06-16 00:00 UTC" in str(refusal)
    (row,) = fleet.rows("global:*")
    assert (row["budget"], row["spent"] / USD) == ("global/daily", refusal.evidence.value)


def test_r074_the_children_of_a_tree_spend_the_budget_of_the_tree() -> None:
    """Four children with sessions of their own spend 0.3 each of one dollar; then nobody in the tree may go on."""
    fleet = Fleet(budget("trace", limit_usd=1), budget("session", limit_usd=0.5))
    told = [
        fleet.call(0.3, at=i, trace="c" * 32, parent="d" * 16, session=f"child-{i}", agent=f"worker-{i}")
        for i in range(4)
    ]
    assert told == [None] * 4
    for session in ("root", "child-0", "child-9"):
        refusal = fleet.call(0.1, at=9, trace="c" * 32, session=session)
        assert refusal is not None
        assert refusal.key == f"trace:{'c' * 32}"
    assert fleet.call(0.1, at=10, trace="e" * 32, session="elsewhere") is None


def test_r074_a_root_without_a_parent_pays_too() -> None:
    fleet = Fleet(budget("trace", limit_usd=1))
    fleet.call(0.9, trace="c" * 32, session="root")
    fleet.call(0.2, at=1, trace="c" * 32, parent="d" * 16, session="child")
    assert fleet.call(0.1, at=2, trace="c" * 32, session="root") is not None


def test_r076_a_share_for_each_agent_keeps_one_from_using_up_the_team() -> None:
    """Of 200 calls of the team, no agent may make more than 100: the chatty one is stopped there, the other goes on."""
    fleet = Fleet(budget("team", limit_steps=200), budget("agent", limit_steps=100))
    chatty = [fleet.call(0.01, at=i, agent="a1", team="t") for i in range(190)]
    assert sum(t is None for t in chatty) == 100
    assert chatty[100] is not None
    assert chatty[100].key == "agent:a1"
    quiet = [fleet.call(0.01, at=200 + i, agent="a2", team="t") for i in range(10)]
    assert quiet == [None] * 10
    assert "agent:a1" in {d.scope for d in fleet.detections if d.action == "warn"}, "told before it is stopped"


def test_r134_calls_without_any_id_are_under_the_cap_of_their_trace_and_the_budget_of_their_agent() -> None:
    fleet = Fleet(budget("session/steps", limit_steps=5), budget("agent", limit_steps=6))
    told = [fleet.call(0.01, at=i, session=f"trace:{'f' * 32}", trace="f" * 32, agent="a") for i in range(7)]
    assert [t is None for t in told] == [True] * 5 + [False] * 2
    assert told[5] is not None
    assert told[5].key == f"session:trace:{'f' * 32}"


def test_r135_the_call_in_flight_ends_above_the_cap_the_next_is_refused_and_an_extension_lets_it_go_on() -> None:
    fleet = Fleet(budget("session/cap", limit_usd=1))
    fleet.call(0.99, session="s")
    assert fleet.call(0.05, at=1, session="s") is None
    refusal = fleet.call(0.05, at=2, session="s")
    assert refusal is not None
    assert refusal.evidence.value == pytest.approx(1.04)
    fleet.order("session:s", "session/cap", "extend", 1, at=3)
    assert fleet.call(0.05, at=4, session="s") is None
    assert fleet.sessions["s"].cost_nano_usd == 1.09 * USD, "what it was goes on"
