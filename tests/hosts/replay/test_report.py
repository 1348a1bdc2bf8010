"""The report of a replay: what a stop would have saved, how long it took to notice, and what that adds up to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spanfuse_processor.hosts.replay import Files
from spanfuse_processor.hosts.replay.diff import diff
from spanfuse_processor.hosts.replay.ends import MAX_ENDS, Ends
from spanfuse_processor.hosts.replay.report import Report
from spanfuse_processor.hosts.replay.totals import BY_RULE, percentile
from spanfuse_schemas import Policy
from tests.support.recorded import SECOND, START_NS, healthy, repeater, write_lines
from tests.support.replays import replay_files, replay_policies

CALL_NANO_USD = 27_000
"""100 tokens in and 20 out, at the list price of gpt-4o-mini."""


def policy(**rules: dict[str, Any]) -> Policy:
    return Policy.model_validate({"rules": {name.replace("__", "."): settings for name, settings in rules.items()}})


def replayed(folder: Path, requests: list[Any], rules: Policy | None = None, **options: Any) -> Report:
    return replay_files(rules or Policy(), [write_lines(folder / "r.jsonl", requests)], **options)


def entry(**counts: int) -> dict[str, int]:
    return dict.fromkeys(BY_RULE, 0) | counts


def test_a_stop_saves_the_calls_and_the_money_from_the_first_refused_call_to_the_end(tmp_path: Path) -> None:
    s = replayed(tmp_path, repeater(6)).sessions["s"]
    assert (s.calls, s.cost_nano_usd) == (6, 6 * CALL_NANO_USD)
    assert (s.blocked_at, s.saved_calls, s.saved_nano_usd) == (3, 3, 3 * CALL_NANO_USD)


def test_a_session_that_is_let_through_saves_nothing_and_has_no_time_to_detection(tmp_path: Path) -> None:
    s = replayed(tmp_path, healthy(4)).sessions["h"]
    assert (s.saved_calls, s.saved_nano_usd, s.time_to_detection_s, s.calls_to_detection) == (0, 0, None, None)


def test_a_block_after_the_last_call_is_a_detection_and_stops_nothing(tmp_path: Path) -> None:
    report = replayed(tmp_path, repeater(3)).to_dict()
    assert (report["totals"]["sessions_with_detections"], report["totals"]["sessions_blocked"]) == (1, 0)
    assert report["by_rule"]["repeat.prompt"] == entry(detections=1, sessions=1, block=1)


def test_time_to_detection_is_from_the_first_repeat_to_the_call_that_gave_it_away(tmp_path: Path) -> None:
    """One call a second; the third gives it away: two seconds and three calls from the end of the first."""
    s = replayed(tmp_path, repeater(6)).sessions["s"]
    assert (s.time_to_detection_s, s.calls_to_detection) == (2.0, 3)


def test_what_was_well_before_it_began_does_not_count(tmp_path: Path) -> None:
    late = repeater(9, "h")[4:]
    s = replayed(tmp_path, [*healthy(4), *late]).sessions["h"]
    assert (s.blocked_at, s.time_to_detection_s, s.calls_to_detection) == (7, 2.0, 3)


def test_a_detection_has_its_time_and_the_numbers_that_its_rule_has(tmp_path: Path) -> None:
    found = replayed(tmp_path, repeater(6)).sessions["s"].detections[0]
    assert (found.rule, found.call, found.at_ns) == ("repeat.prompt", 2, START_NS + 2 * SECOND + SECOND // 20)
    numbers = {k: v for k, v in found.evidence.items() if not k.endswith("_id")}
    assert numbers == {
        "count": 3,
        "threshold": 3.0,
        "value": 3.0,
        "unit": "repeats",
        "since_ns": START_NS + SECOND // 20,
        "cost_nano_usd": 3 * CALL_NANO_USD,
    }
    assert set(found.evidence) - set(numbers) == {"first_span_id", "last_span_id", "trace_id"}


def test_totals_add_up_all_sessions(tmp_path: Path) -> None:
    report = replayed(tmp_path, [*repeater(6, "a"), *repeater(4, "b"), *healthy(4)]).to_dict()
    assert report["totals"] == {
        "sessions": 3,
        "sessions_with_detections": 2,
        "sessions_blocked": 2,
        "calls": 14,
        "saved_calls": 4,
        "cost_nano_usd": 14 * CALL_NANO_USD,
        "saved_nano_usd": 4 * CALL_NANO_USD,
        "time_to_detection_s_p50": 2.0,
        "time_to_detection_s_p95": 2.0,
        "calls_to_detection_p50": 3,
        "calls_to_detection_p95": 3,
    }


def test_each_rule_has_its_counts_and_what_its_stops_save(tmp_path: Path) -> None:
    report = replayed(tmp_path, [*repeater(6, "a"), *repeater(4, "b"), *healthy(4)]).to_dict()
    told, stops = {"detections": 2, "sessions": 2, "block": 2}, {"blocked_sessions": 2, "saved_calls": 4}
    assert report["by_rule"] == {"repeat.prompt": entry(**told, **stops, saved_nano_usd=4 * CALL_NANO_USD)}
    assert report["rules"] == {"repeat.prompt": 2}


@pytest.mark.parametrize("mode", ["warn", "nudge"])
def test_a_rule_that_warns_or_nudges_is_counted_as_such_and_stops_nothing(tmp_path: Path, mode: str) -> None:
    rules = policy(repeat__prompt={"mode": mode}, near={"mode": "off"})
    report = replayed(tmp_path, repeater(6), rules).to_dict()
    assert report["by_rule"] == {"repeat.prompt": entry(detections=1, sessions=1, **{mode: 1})}
    assert (report["totals"]["sessions_blocked"], report["totals"]["time_to_detection_s_p50"]) == (0, None)


def test_a_rule_in_shadow_is_reported_as_what_it_would_have_asked_for(tmp_path: Path) -> None:
    rules = policy(repeat__prompt={"mode": "shadow"}, near={"mode": "off"})
    report = replayed(tmp_path, [*repeater(6, "a"), *repeater(6, "b"), *healthy(4)], rules).to_dict()
    assert report["by_rule"] == {"repeat.prompt": entry(detections=2, sessions=2, shadow=2, shadow_sessions=2)}
    assert report["totals"]["sessions_blocked"] == 0
    assert [s["calls_to_detection"] for s in report["sessions"]] == [3, 3, None]


def test_the_mode_of_every_rule_is_told(tmp_path: Path) -> None:
    modes = replayed(tmp_path, repeater(1), policy(repeat__prompt={"mode": "shadow"}, near={"mode": "off"})).modes
    assert (modes["repeat.prompt"], modes["near"], modes["cycle"], modes["drift"]) == ("shadow", "off", "block", "warn")


def test_two_replays_give_the_same_report_to_the_letter(tmp_path: Path) -> None:
    """Whatever is held in memory, and whether or not another policy is replayed beside it."""
    mixed = [r for trio in zip(repeater(8), repeater(8, "t"), healthy(8), strict=True) for r in trio]
    path = write_lines(tmp_path / "r.jsonl", mixed)
    once = str(replay_files(Policy(), [path]).to_dict())
    assert str(replay_files(Policy(), [path], live_sessions=1).to_dict()) == once
    other = policy(repeat__prompt={"count": 5})
    beside = replay_policies([other, Policy()], Files((path,)))
    assert str(beside[1].to_dict()) == once
    assert str(beside[0].to_dict()) == str(replay_files(other, [path]).to_dict())


def test_two_policies_are_compared(tmp_path: Path) -> None:
    """3 repeats against 5: one session ends before the fifth, one is stopped two calls later, one is never stopped."""
    path = write_lines(tmp_path / "r.jsonl", [*repeater(5, "five"), *repeater(7, "seven"), *healthy(4)])
    lax = policy(repeat__prompt={"count": 5}, near={"mode": "off"})
    old, new = replay_policies([Policy(), lax], Files((path,)))
    found = diff(old, new)
    assert found["stopped_by_new_only"] == []
    assert [(s["session"], s["blocked_at"], s["saved_calls"]) for s in found["stopped_by_old_only"]] == [("five", 3, 2)]
    moved = [(m["session"], m["old"]["blocked_at"], m["new"]["blocked_at"]) for m in found["stopped_elsewhere"]]
    assert moved == [("seven", 3, 5)]
    assert [found["totals"][side]["saved_nano_usd"] for side in ("old", "new")] == [
        6 * CALL_NANO_USD,
        2 * CALL_NANO_USD,
    ]
    assert [found["by_rule"]["repeat.prompt"][side]["blocked_sessions"] for side in ("old", "new")] == [2, 1]
    back = diff(new, old)
    assert (back["stopped_by_new_only"], back["stopped_by_old_only"]) == (found["stopped_by_old_only"], [])


def test_a_policy_against_itself_changes_nothing(tmp_path: Path) -> None:
    report = replayed(tmp_path, [*repeater(6), *healthy(4)])
    found = diff(report, report)
    assert not found["stopped_by_new_only"] + found["stopped_by_old_only"] + found["stopped_elsewhere"]
    assert all(beside["old"] == beside["new"] for beside in [found["totals"], *found["by_rule"].values()])


def test_percentiles_are_values_that_occurred() -> None:
    values = [float(n) for n in range(20, 0, -1)]
    assert (percentile(values, 50), percentile(values, 95), percentile([7], 95), percentile([], 50)) == (
        10,
        19,
        7,
        None,
    )


def test_of_a_long_session_only_the_newest_ends_are_remembered() -> None:
    """How many calls there were since a time that may be forgotten is not known."""
    ends = Ends()
    for n in range(MAX_ENDS + 5):
        ends.add(n)
    assert (ends.since(MAX_ENDS), ends.since(6), ends.since(5)) == (5, MAX_ENDS - 1, None)
