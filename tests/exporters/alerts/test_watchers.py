"""What no rule sees: silence, spikes, a policy gone wrong, a model without a price, the service's own health."""

from __future__ import annotations

import json

import pytest

from spanfuse_processor.config import alerts as config
from spanfuse_processor.exporters.alerts.signal import Over, Signal
from spanfuse_processor.exporters.alerts.watchers import spike
from spanfuse_processor.exporters.alerts.watchers.block_rate import BlockRates
from spanfuse_processor.exporters.alerts.watchers.health import HealthWatch
from spanfuse_processor.exporters.alerts.watchers.silence import Silence
from spanfuse_processor.exporters.alerts.watchers.spike import Spikes
from spanfuse_processor.exporters.alerts.watchers.unpriced import Unpriced
from spanfuse_processor.exporters.readmodel.model import MinuteRow, SessionRow

S = 10**9
MINUTE = 60 * S
START = 1_700_000_040 * S
QUIET = config.Silence()


def work(watch: Silence, minutes: range, *agents: str, last: dict[str, int]) -> list[Signal | Over]:
    """Looks once a minute, while these work."""
    found: list[Signal | Over] = []
    for minute in minutes:
        now = START + minute * MINUTE
        last |= {f"agent:{name}": now - S for name in agents}
        found += watch.look(last, now, QUIET)
    return found


def test_r099_an_agent_that_used_to_send_and_sends_nothing_is_told_once_and_its_return_too() -> None:
    """After a quarter of an hour; the others go on."""
    watch, last = Silence(), dict[str, int]()
    assert work(watch, range(60), "a", "b", last=last) == []
    assert work(watch, range(60, 74), "b", last=last) == []
    (told,) = work(watch, range(74, 120), "b", last=last)
    assert isinstance(told, Signal)
    assert (told.rule, told.key, told.agent, told.holds) == ("source.silent", "agent:a", "a", True)
    (back,) = work(watch, range(120, 125), "a", "b", last=last)
    assert back == Over("agent:a", START + 120 * MINUTE - S, "source.silent")


def test_r099_a_feed_that_was_connected_and_brings_nothing_is_one_alert_of_all() -> None:
    """Not one for each agent."""
    watch, last = Silence(), dict[str, int]()
    work(watch, range(60), *"abcdef", last=last)
    (told,) = work(watch, range(60, 120), last=last)
    assert isinstance(told, Signal)
    assert (told.key, told.severity) == ("global:*", "critical")


def test_who_pauses_every_night_is_not_missed_the_second_night() -> None:
    """The longest silence is learned."""
    watch, last, told = Silence(), dict[str, int](), 0
    for day in range(3):
        morning = day * 1440
        found = work(watch, range(morning, morning + 480), "office", "nightly", last=last)
        found += work(watch, range(morning + 480, morning + 1440), "nightly", last=last)
        told += sum(isinstance(one, Signal) for one in found)
    assert told == 1


def test_who_worked_for_ten_minutes_is_not_missed() -> None:
    """A script that was run once."""
    watch, last = Silence(), dict[str, int]()
    work(watch, range(10), "once", "always", last=last)
    assert work(watch, range(10, 600), "always", last=last) == []


def test_what_is_learned_outlives_a_restart() -> None:
    """Told once, before or after."""
    watch, last = Silence(), dict[str, int]()
    work(watch, range(60), "a", "b", last=last)
    assert work(watch, range(60, 100), "b", last=last)
    again = Silence()
    again.restore(json.loads(json.dumps(watch.snapshot())))
    assert work(again, range(100, 200), "b", last=last) == []


def minutes(now: int, cost_of: dict[int, float], count: int = 1440) -> list[MinuteRow]:
    """The last minutes; `cost_of` is the cost of a minute by its hour before now, USD, `-1`: all others."""
    spent = {m: cost_of.get((now - m) // 60, cost_of.get(-1, 0)) for m in range(now - count + 1, now + 1)}
    return [MinuteRow(minute=m, calls=int(usd > 0), cost_nano_usd=round(usd * S)) for m, usd in spent.items()]


SPIKE = config.Spike()


def test_r128_a_team_at_three_times_its_mean_hour_is_one_alert_that_names_its_dearest_session() -> None:
    """And says by how much."""
    watch, now = Spikes(), START // MINUTE
    assert watch.look("team:t", minutes(now, {-1: 0.02}), SPIKE) is None
    for hour in range(1, 49):
        assert watch.look("team:t", minutes(now + 60 * hour, {-1: 0.02}, 180), SPIKE) is None
    found = watch.look("team:t", minutes(now + 60 * 49, {0: 0.07, -1: 0.02}, 180), SPIKE)
    assert found is not None
    assert found.mean == pytest.approx(1.2 * S, rel=0.02)
    top = SessionRow(session="run-7", agent="research", cost_nano_usd=3 * S)
    told = spike.signal(found, top, SPIKE, START)
    assert (told.key, told.team, told.session, told.level) == ("team:t", "t", "run-7", 0)
    assert "run-7" in told.message
    assert "3.5 times" in told.message


def test_what_doubles_is_worse_and_what_is_small_is_nothing() -> None:
    """Twelve times is two levels above three times; ten cents against one is no matter."""
    watch, now = Spikes(), START // MINUTE
    watch.look("global:*", minutes(now, {-1: 0.01}), SPIKE)
    watch.look("global:*", minutes(now + 60, {-1: 0.01}, 180), SPIKE)
    found = watch.look("global:*", minutes(now + 120, {0: 0.125, -1: 0.01}, 180), SPIKE)
    assert found is not None
    assert spike.signal(found, None, SPIKE, START).level == 2
    small = Spikes()
    small.look("global:*", minutes(now, {-1: 0.0001}), SPIKE)
    assert small.look("global:*", minutes(now + 120, {0: 0.01, -1: 0.0001}, 180), SPIKE) is None


def test_a_deployment_of_a_few_hours_has_no_usual_hour_yet() -> None:
    """Also after a restart, and whatever day it is."""
    watch, now = Spikes(), START // MINUTE
    young = dict.fromkeys(range(1, 6), 0.02) | {0: 1.0}
    assert watch.look("agent:new", minutes(now, young), SPIKE) is None
    again = Spikes()
    again.restore(json.loads(json.dumps(watch.snapshot())))
    assert again.look("agent:new", minutes(now + 5, {0: 1.0, -1: 0.02}, 180), SPIKE) is None


def rows(blocked: int, of: int, mode: str = "enforce") -> list[SessionRow]:
    stopped = {"action": "block", "rule": "velocity"}
    return [
        SessionRow.made(session=str(n), agent="a", mode=mode, **(stopped if n < blocked else {})) for n in range(of)
    ]


def test_a_policy_that_stops_every_fifth_session_is_told_once_with_the_rule() -> None:
    """Until fewer than 16 % are; and few sessions say nothing."""
    watch, settings = BlockRates(), config.BlockRate()
    assert list(watch.look(rows(15, 19), START, settings)) == []
    (told,) = watch.look(rows(12, 50), START, settings)
    assert isinstance(told, Signal)
    assert (told.rule, told.severity, told.holds) == ("policy.block_rate", "critical", True)
    assert "12 of 50 sessions" in told.message
    assert "velocity" in told.message
    assert list(watch.look(rows(30, 50), START, settings)) == []
    assert list(watch.look(rows(9, 50), START, settings)) == []
    assert list(watch.look(rows(7, 50), START, settings)) == [Over("global:*", START, "policy.block_rate")]
    (would,) = BlockRates().look(rows(25, 50, "observe"), START, settings)
    assert isinstance(would, Signal)
    assert "would be stopped" in would.message


def test_r067_a_model_without_a_price_is_told_the_first_time() -> None:
    """Each once, over restarts."""
    watch = Unpriced()
    assert [one.key for one in watch.look({"new-x-9": 1}, START)] == ["model:new-x-9"]
    again = Unpriced()
    again.restore(json.loads(json.dumps(watch.snapshot())))
    assert [one.key for one in again.look({"new-x-9": 5, "other": 1}, START)] == ["model:other"]


def test_what_the_service_cannot_do_is_told_when_it_grows() -> None:
    """What was counted before the first look is past."""
    watch = HealthWatch()
    assert list(watch.look({"counts": {"dead_letters": 7}}, True, START)) == []
    assert [one.rule for one in watch.look({"counts": {"dead_letters": 9}}, True, START)] == ["health.dead_letters"]
    found = watch.look({"counts": {"dead_letters": 9}, "ledger": {"reachable": False}}, False, START)
    assert [one.rule for one in found] == ["health.stalled", "health.ledger"]
