"""Budgets of scopes: what holds for whom, what is told when, and what stands until when."""

from __future__ import annotations

import pytest

from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_schemas import Charge, ChargeBatch, Decision
from spanfuse_schemas.charge import QUARTER_NS
from tests.support.agents import SECOND, START_NS
from tests.support.charges import charge, names
from tests.support.purse import DAY, HOUR, MIDNIGHT, USD, Purse, budget


def daily(limit: float = 1.0, **fields: object) -> Purse:
    return Purse("user:u", budget("user/daily", limit_usd=limit, period="daily", **fields))


def state_of(decision: Decision) -> tuple[str, str, str]:
    return decision.key, decision.state, decision.rule


def test_a_budget_for_anybody_holds_for_a_user_never_seen_and_names_who_what_and_until_when() -> None:
    purse = daily(0.05)
    out = purse.spend(0.06)
    (decision,) = out.decisions
    assert state_of(decision) == ("user:u", "open", "budget.user/daily")
    assert (decision.action, decision.lapses) == ("block", True)
    assert decision.expires_at_ns == START_NS + MIDNIGHT * SECOND
    assert "User `u` spent $0.0600 of $0.0500 until 2025-06-16 00:00 UTC" in decision.message
    assert (out.detections[-1].user, out.detections[-1].action) == ("u", "block")


def test_a_user_without_a_budget_has_no_state() -> None:
    purse = Purse("user:u", budget("user/vip", match="vip-*", limit_usd=1))
    assert purse.spend(9).touched == {}
    assert purse.state.calls == 0


def test_each_share_is_told_once_a_period() -> None:
    purse = daily()
    told = [purse.fired(purse.bill(0.1, at=i)) for i in range(12)]
    assert [len(t) for t in told] == [0, 0, 0, 0, 1, 0, 0, 1, 1, 1, 0, 0]
    assert len(purse.fired(purse.bill(0.85, at=MIDNIGHT))) == 2


def test_a_share_says_when_all_will_be_spent_if_it_goes_on_so() -> None:
    purse = daily()
    purse.spend(0.25, at=0)
    (told,) = purse.spend(0.25, at=HOUR).detections
    assert told.action == "warn"
    assert "50 % of budget `user/daily` is reached" in told.message
    assert "all is spent at 2025-06-15 17:06 UTC" in told.message  # an hour for the first half, from 15:06 on


def test_what_is_foretold_counts_from_the_first_call_in_whatever_order_they_are_told() -> None:
    purse = daily()
    purse.spend(0.25, at=HOUR)
    (told,) = purse.spend(0.25, at=0).detections
    assert "all is spent at 2025-06-15 17:06 UTC" in told.message


def test_of_a_slow_spender_nothing_is_foretold() -> None:
    purse = Purse("user:u", budget("user/hourly", limit_usd=1, period="hourly"))
    purse.spend(0.01, at=-HOUR / 10)
    rows = purse.stage.accounts("user:u", purse.state, START_NS)
    assert rows[0]["projected_ns"] is None


def test_the_period_ends_and_the_next_call_says_so() -> None:
    purse = daily()
    purse.spend(1.2)
    (closed,) = purse.spend(0.1, at=MIDNIGHT).decisions
    assert (closed.state, closed.rule, closed.message) == ("closed", "budget.user/daily", "Its period is over.")
    assert purse.spent("user/daily", at=MIDNIGHT) == 0.1 * USD


def test_without_a_call_a_tick_says_so_and_only_once() -> None:
    purse = daily()
    purse.spend(1.2)
    assert purse.state.due_ns() == START_NS + MIDNIGHT * SECOND
    assert purse.tick(MIDNIGHT - 1).decisions == []
    assert [d.state for d in purse.tick(MIDNIGHT).decisions] == ["closed"]
    assert purse.tick(MIDNIGHT + 1).decisions == []
    assert purse.state.due_ns() == 0


def test_what_comes_late_belongs_to_its_own_period_and_holds_nobody_back_in_the_next() -> None:
    purse = daily()
    purse.spend(0.1, at=MIDNIGHT + 5)
    out = purse.spend(5, at=MIDNIGHT - 5)
    assert out.decisions == []
    assert {d.action for d in out.detections} == {"warn"}
    assert "in a period that is over" in out.detections[-1].message
    assert purse.spent("user/daily", at=MIDNIGHT + 5) == 0.1 * USD


def test_a_charge_over_midnight_is_divided() -> None:
    purse = daily()
    quarter = (START_NS + MIDNIGHT * SECOND) // QUARTER_NS - 1
    purse.spend(0.9, at=MIDNIGHT + 1, calls=3, earlier={quarter: (round(0.5 * USD), 0, 2)})
    assert purse.spent("user/daily", at=MIDNIGHT + 1) == 0.4 * USD
    told = purse.bill(0.9, calls=3, earlier={quarter: (1, 0, 2)})
    assert Charge.from_json(told.to_json()) == told


def test_the_day_is_that_of_the_named_time_zone() -> None:
    """15:06 UTC is 23:06 in Singapore."""
    purse = daily(0.5, time_zone="Asia/Singapore")
    (decision,) = purse.spend(1).decisions
    assert decision.expires_at_ns == START_NS + (MIDNIGHT - 8 * HOUR) * SECOND
    assert "2025-06-16 00:00 Asia/Singapore" in decision.message


@pytest.mark.parametrize(("fields", "spent"), [({"limit_tokens": 100}, 120), ({"limit_steps": 4}, 4)])
def test_tokens_and_steps_are_budgets_too(fields: dict[str, int], spent: int) -> None:
    purse = Purse("team:t", budget("team/all", **fields))
    out = [purse.spend(9, calls=2, input_tokens=50, output_tokens=10) for _ in range(2)]
    assert [len(o.decisions) for o in out] == [0, 1]
    (decision,) = out[1].decisions
    assert (decision.evidence.value, decision.expires_at_ns, decision.lapses) == (spent, None, False)


def test_of_two_budgets_that_are_spent_the_one_that_holds_longer_is_told() -> None:
    purse = Purse(
        "user:u",
        budget("user/daily", limit_usd=1, period="daily"),
        budget("user/monthly", limit_usd=2, period="monthly"),
    )
    assert [d.rule for d in purse.spend(1).decisions] == ["budget.user/daily"]
    assert [d.rule for d in purse.spend(1).decisions] == ["budget.user/monthly"]
    assert purse.tick(MIDNIGHT).decisions == []
    assert purse.standing is not None
    (closed,) = purse.order("user/monthly", "set", 5 * USD, at=MIDNIGHT + 1).decisions
    assert closed.state == "closed"


def test_when_the_longer_is_raised_the_shorter_still_holds() -> None:
    purse = Purse(
        "user:u",
        budget("user/daily", limit_usd=1, period="daily"),
        budget("user/monthly", limit_usd=2, period="monthly"),
    )
    purse.spend(2.5)
    (decision,) = purse.order("user/monthly", "extend", 5 * USD, at=1).decisions
    assert state_of(decision) == ("user:u", "open", "budget.user/daily")
    assert decision.epoch > 1


@pytest.mark.parametrize(("mode", "action"), [("warn", None), ("shadow", None), ("nudge", "nudge"), ("block", "block")])
def test_its_mode_says_what_happens_at_the_limit(mode: str, action: str | None) -> None:
    purse = daily(mode=mode)
    out = purse.spend(2)
    assert [d.action for d in out.decisions] == ([action] if action else [])
    assert out.detections[-1].mode == mode


def test_a_raised_limit_releases_at_once_and_a_lowered_one_blocks_at_once() -> None:
    purse = daily()
    purse.spend(1.2)
    raised = purse.order("user/daily", "set", 2 * USD, at=1)
    assert [d.state for d in raised.decisions] == ["closed"]
    assert "set by ops" in raised.decisions[0].message
    assert purse.did(raised).account["limit"] == 2 * USD
    lowered = purse.order("user/daily", "set", USD // 2, at=2)
    assert [d.state for d in lowered.decisions] == ["open"]
    assert [d.state for d in purse.order("user/daily", "set", 0, at=3).decisions] == []
    assert purse.standing is not None


def test_an_extension_holds_until_its_expiry_and_then_no_longer() -> None:
    purse = daily()
    purse.spend(1.2)
    out = purse.order("user/daily", "extend", USD, at=1, expires_at_ns=START_NS + 100 * SECOND)
    assert [d.state for d in out.decisions] == ["closed"]
    assert purse.state.due_ns() == START_NS + 100 * SECOND
    assert purse.tick(99).decisions == []
    ended = purse.tick(100)
    assert [d.state for d in ended.decisions] == ["open"]
    assert [d.action for d in ended.detections] == ["warn", "warn", "block"]


def test_an_extension_without_an_expiry_ends_with_the_period() -> None:
    purse = daily()
    purse.order("user/daily", "extend", USD)
    assert purse.spend(1.2).decisions == []
    assert [d.state for d in purse.spend(1.2, at=MIDNIGHT).decisions] == ["open"]


def test_a_reset_of_the_budget_begins_the_period_anew() -> None:
    purse = daily()
    purse.spend(1.2)
    assert [d.state for d in purse.order("user/daily", "reset", at=1).decisions] == ["closed"]
    assert purse.spent("user/daily", at=1) == 0
    assert [d.action for d in purse.spend(0.6, at=2).detections] == ["warn"]


def test_an_order_is_carried_out_once_and_one_about_nothing_makes_no_state() -> None:
    purse = daily()
    first = purse.order("user/daily", "extend", USD, id="same")
    again = purse.order("user/daily", "extend", USD, id="same")
    assert (purse.did(first).done, purse.did(again).done, purse.did(again).why) == (True, False, "done before")
    assert purse.did(again).account["limit"] == 2 * USD
    unknown = purse.order("user/weekly", "extend", USD)
    assert not purse.did(unknown).done
    assert "no budget user/weekly" in purse.did(unknown).why
    assert unknown.touched == {}


def test_a_reset_of_the_key_begins_the_budgets_that_held_it_anew_and_says_so() -> None:
    purse = Purse(
        "user:u",
        budget("user/daily", limit_usd=1, period="daily"),
        budget("user/monthly", limit_usd=9, period="monthly"),
    )
    purse.spend(1.2)
    closed = purse.stage.reset(purse.state, START_NS + SECOND, "ops")
    assert closed.message == "Reset by ops. Begun anew: user/daily."
    assert (closed.rule, closed.issued_at_ns) == ("budget.user/daily", START_NS + SECOND)
    assert purse.spend(0.1, at=2).decisions == []
    assert purse.spent("user/monthly", at=2) == 1.3 * USD


def agent_with_both(limit: float, cooldown_s: float) -> Purse:
    return Purse(
        "agent:a",
        budget("agent/hourly", limit_usd=limit, period="hourly"),
        agent_breaker={"mode": "block", "sessions": 2},
        breaker={"cooldown_s": cooldown_s},
    )


def trip(purse: Purse, at: float) -> list[Decision]:
    found = [charge("agent:a", at=at + i, members=names(i), tripped=names(i)) for i in range(2)]
    return purse.take(found).decisions


def test_a_budget_that_holds_longer_than_the_breaker_stands_in_its_place_and_the_breaker_after_it() -> None:
    """The breaker holds 300 s, the hour is over later; the end of the hour gives the breaker its probe."""
    purse = agent_with_both(1, 300)
    assert [d.rule for d in trip(purse, at=0)] == ["agent.breaker"]
    assert [d.rule for d in purse.spend(1.5, at=5).decisions] == ["budget.agent/hourly"]
    end = HOUR - (START_NS // SECOND) % HOUR
    (told,) = purse.tick(end).decisions
    assert (told.rule, told.action) == ("agent.breaker", "block")
    assert told.expires_at_ns is not None
    assert told.expires_at_ns < START_NS + end * SECOND
    assert [d.state for d in purse.spend(0.1, at=end + 1).decisions] == ["closed"]


def test_what_is_told_again_has_the_mode_of_the_deployment_as_it_is_then() -> None:
    purse = agent_with_both(1, 300)
    trip(purse, at=0)
    purse.spend(1.5, at=5)
    purse.stage.policy = purse.stage.policy.model_copy(update={"mode": "observe"})
    (told,) = purse.tick(HOUR - (START_NS // SECOND) % HOUR).decisions
    assert (told.rule, told.mode) == ("agent.breaker", "observe")


def test_a_breaker_that_holds_longer_stands_and_its_probe_does_not_unlock_the_budget() -> None:
    purse = agent_with_both(1, 50_000)
    assert [d.rule for d in purse.spend(1.5).decisions] == ["budget.agent/hourly"]
    assert [d.rule for d in trip(purse, at=1)] == ["agent.breaker"]
    assert purse.tick(HOUR).decisions == []
    assert purse.standing is not None
    assert purse.standing.rule == "agent.breaker"
    later = purse.spend(1.5, at=50_100)
    assert [d.rule for d in later.decisions] == ["budget.agent/hourly"]
    assert purse.state.decision is None


def test_a_policy_without_the_budget_lets_go_at_the_next_tick() -> None:
    purse = daily()
    purse.spend(2)
    purse.stage.policy = purse.stage.policy.model_copy(update={"budgets": ()})
    assert [d.state for d in purse.tick(1).decisions] == ["closed"]


def test_a_raised_limit_in_the_configuration_releases_at_the_next_tick() -> None:
    purse = daily()
    purse.spend(2)
    more = budget("user/daily", limit_usd=5, period="daily")
    purse.stage.policy = purse.stage.policy.model_copy(update={"budgets": (more,)})
    assert [d.state for d in purse.tick(1).decisions] == ["closed"]


def test_a_snapshot_tells_what_is_due_without_being_restored() -> None:
    purse = daily()
    assert ScopeState.stored_due(purse.state.snapshot()) is None
    purse.spend(2)
    due = ScopeState.stored_due(purse.state.snapshot())
    assert due is not None
    assert (due.at_ns, due.blocked) == (START_NS + MIDNIGHT * SECOND, 1)
    assert 2 * DAY < due.kept_s < 5 * DAY
    again = ScopeState.restore(purse.state.snapshot())
    assert again.snapshot() == purse.state.snapshot()
    assert again.standing == purse.standing


def test_the_accounts_of_a_user_are_small() -> None:
    """A million of them are some 300 MB."""
    purse = Purse(
        "user:u-123456",
        budget("user/daily", limit_usd=1, period="daily"),
        budget("user/monthly", limit_usd=9, period="monthly"),
    )
    for day in range(4):
        purse.spend(0.1, at=day * DAY, source="spanfuse.calls-3", offset=day + 1_000_000)
    assert len(purse.state.snapshot()) < 320


def test_the_state_of_a_scope_without_a_budget_is_as_small_as_before() -> None:
    purse = Purse("team:t")
    purse.spend(1)
    assert purse.state.budgets is None
    assert purse.state.snapshot()[:3] == b"\xdc\x00\x17"


def test_orders_travel_with_charges() -> None:
    purse = daily()
    out = purse.order("user/daily", "extend", USD)
    batch = ChargeBatch(orders=(out.orders[0].order,))
    assert ChargeBatch.from_json(batch.to_json()) == batch
