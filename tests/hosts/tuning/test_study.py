"""A study finds the settings that stop the runaways and leave the good sessions alone, and says how sure that is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from spanfuse_processor.config import load_config
from spanfuse_processor.config.overlay import Overlay
from spanfuse_processor.hosts.tuning.study import Study
from spanfuse_processor.hosts.tuning.written import write, written
from tests.support.agents import policy
from tests.support.studied import fleet, studied


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Twenty-five runaways, and forty good sessions, ten of which the default stops."""
    sweep = ("repeat.prompt.count=2,3,4,5,14", "cycle.rounds=2,3")
    return studied(tmp_path_factory.mktemp("study"), fleet(25, 10, 30), *sweep)


def scored(point: dict[str, Any]) -> tuple[int, int, int]:
    score = point["score"]
    return score["stopped"], score["good_stopped"], score["wasted_calls"]


def test_the_settings_that_stop_all_runaways_and_no_good_session_are_recommended(found: Study) -> None:
    report = found.to_dict()
    assert (report["verdict"], report["recommended"]["settings"]) == ("change", {"repeat.prompt.count": 4})
    assert scored(report["now"]) == (25, 10, 0)
    assert scored(report["recommended"]) == (25, 0, 25)
    assert found.then is not None
    assert found.then.sessions["000-runaway"].blocked_at == 4


def test_the_frontier_holds_what_nothing_else_beats(found: Study) -> None:
    points = found.to_dict()["frontier"]
    assert [scored(point)[:2] for point in points] == [(25, 0)]


def test_a_frontier_has_as_many_points_as_there_are_ways_to_trade(tmp_path: Path) -> None:
    """Runaways that ask five times are only stopped with good sessions that ask four times."""
    requests, labels = fleet(5, 4, 20)
    requests = [r for r in requests if _number(r) < 4 or "runaway" not in _session(r)]
    report = studied(tmp_path, (requests, labels), "repeat.prompt.count=2,3,4,5").to_dict()
    assert [scored(point)[:2] for point in report["frontier"]] == [(0, 0), (5, 4)]


def _session(request: dict[str, Any]) -> str:
    attributes = request["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"]
    return next(str(a["value"]["stringValue"]) for a in attributes if a["key"] == "session.id")


def _number(request: dict[str, Any]) -> int:
    start = int(request["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["startTimeUnixNano"])
    return (start - 1_750_000_000 * 10**9) // 10**9


def test_every_value_is_told_on_its_own(found: Study) -> None:
    values = {str(point["settings"]): scored(point) for point in found.to_dict()["values"]}
    assert values["{'repeat.prompt.count': 2}"] == (25, 10, 0)
    assert values["{'repeat.prompt.count': 14}"] == (0, 0, 25 * 12)
    assert values["{'cycle.rounds': 2}"] == (25, 10, 0)


def test_what_is_recommended_is_judged_by_sessions_that_did_not_choose_it(found: Study) -> None:
    held = found.to_dict()["held_out"]
    assert (held["folds"], held["gains"]) == (5, True)
    assert held["chosen"] == [{"repeat.prompt.count": 4}] * 5
    assert (held["better"], held["worse"], held["chance"]) == (10, 0, 0.002), "wrong stops decide"


def test_a_sample_that_is_too_small_is_told(found: Study) -> None:
    (good,) = [doubt for doubt in found.to_dict()["doubts"] if "good sessions" in doubt]
    assert good.startswith("0 of 40 good sessions stopped does not rule out that 8.8% of all would be")
    assert "73 good sessions" in good


def test_the_same_recording_gives_the_same_report(found: Study, tmp_path: Path) -> None:
    again = studied(tmp_path, fleet(25, 10, 30), "repeat.prompt.count=2,3,4,5,14", "cycle.rounds=2,3")
    assert again.to_dict() == found.to_dict()


def test_each_setting_is_replayed_once(found: Study) -> None:
    tried = found.trials.tried
    assert len(tried) == len(set(tried)) <= 12


def test_the_policy_file_holds_what_differs_and_is_one_that_validates_and_that_can_be_laid_over(
    found: Study, tmp_path: Path
) -> None:
    write(tmp_path / "policy.yaml", found)
    config = load_config(tmp_path / "policy.yaml")
    assert config.detectors.repeat_prompt.count == 4
    sections = yaml.safe_load((tmp_path / "policy.yaml").read_text(encoding="utf-8"))
    assert sections == {"detectors": {"repeat.prompt": {"count": 4}}}
    assert Overlay.model_validate(sections)
    assert "# Good sessions stopped: 0 of 40 (as configured: 10)." in written(found)


def test_a_gain_that_other_sessions_do_not_confirm_is_not_recommended(tmp_path: Path) -> None:
    """One runaway that asks four times in all would be stopped by a smaller count: nobody else gains by it."""
    requests, labels = fleet(1, 0, 12)
    requests = [r for r in requests if _number(r) < 3 or "runaway" not in _session(r)]
    report = studied(tmp_path, (requests, labels), "repeat.prompt.count=2,3").to_dict()
    assert (report["verdict"], report["policy"]) == ("unconfirmed", {})
    assert report["best"]["settings"] == {"repeat.prompt.count": 2}
    assert report["recommended"]["settings"] == {}


def test_wrong_stops_beyond_what_is_allowed_are_mended_by_the_least_change(tmp_path: Path) -> None:
    report = studied(tmp_path, fleet(3, 1, 12), "repeat.prompt.count=2,3,4,5,6").to_dict()
    assert (report["verdict"], report["recommended"]["settings"]) == ("allowance", {"repeat.prompt.count": 4})


def test_wrong_stops_that_can_only_be_mended_at_the_price_of_runaways_are_left_to_people(tmp_path: Path) -> None:
    """Runaways that ask five times, and one good session that asks four times: no count tells them apart."""
    requests, labels = fleet(5, 1, 20)
    requests = [r for r in requests if _number(r) < 5 or "runaway" not in _session(r)]
    report = studied(tmp_path, (requests, labels), "repeat.prompt.count=2,3,5").to_dict()
    assert (report["verdict"], report["recommended"]["settings"]) == ("dear", {})
    assert [scored(point)[:2] for point in report["frontier"]] == [(0, 0), (5, 1)]


def test_wrong_stops_that_are_allowed_change_nothing(tmp_path: Path) -> None:
    assert studied(tmp_path, fleet(6, 1, 19), percent=5).verdict == "keep"


def test_without_good_sessions_nothing_is_recommended(tmp_path: Path) -> None:
    report = studied(tmp_path, fleet(4, 0, 0)).to_dict()
    assert (report["verdict"], report["policy"]) == ("no_good", {})
    assert any("nothing is known of wrong stops" in doubt for doubt in report["doubts"])


def test_good_sessions_alone_say_what_has_to_be_loosened(tmp_path: Path) -> None:
    report = studied(tmp_path, fleet(0, 8, 12)).to_dict()
    assert report["recommended"]["settings"] == {"repeat.prompt.count": 4}
    assert any("No runaway is labelled" in doubt for doubt in report["doubts"])


def test_without_labels_no_share_is_told_of_anything(tmp_path: Path) -> None:
    report = studied(tmp_path, fleet(2, 1, 3), labels={}).to_dict()
    assert report["verdict"] == "no_labels"
    assert not {"recommended", "frontier", "policy", "held_out", "doubts"} & set(report)
    assert [point["all"]["sessions_blocked"] for point in report["values"]] == [3, 2, 2], "counts of 2, 4 and 5"
    assert all("score" not in point for point in report["values"])
    assert report["calls_per_session"]["percentiles"]["100"] == 15


def test_a_rule_that_only_warns_is_tried_as_if_it_blocked_and_written_so(tmp_path: Path) -> None:
    mine = policy(repeat_prompt={"mode": "shadow"}, near={"mode": "off"})
    found = studied(tmp_path, fleet(25, 0, 30), policy=mine)
    assert found.recommended == (("repeat.prompt", "mode", "block"),)
    assert found.policy == {"detectors": {"repeat.prompt": {"mode": "block"}}}


def test_labels_of_sessions_that_are_not_there_are_counted(tmp_path: Path) -> None:
    requests, labels = fleet(2, 0, 2)
    kept = {name: label for name, label in labels.items() if name != "000-good"}
    gone = {f"gone-{n}": label.model_copy(update={"session": f"gone-{n}"}) for n, label in enumerate(labels.values())}
    report = studied(tmp_path, (requests, kept | gone)).to_dict()
    assert report["labels"] == {"runaway": 2, "good": 1, "either": 0, "unlabelled": 1, "not_recorded": 4}
