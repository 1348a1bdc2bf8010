"""What another policy changes: by rule and by agent, in stops, money and time to detection."""

from __future__ import annotations

from pathlib import Path

from spanfuse_processor.hosts.replay import Files
from spanfuse_processor.hosts.replay.diff import BY_AGENT, SPEED, diff
from spanfuse_schemas import Policy
from tests.support.recorded import attribute, healthy, repeater, write_lines
from tests.support.replays import replay_policies

CALL_NANO_USD = 27_000
LAX = Policy.model_validate({"rules": {"repeat.prompt": {"count": 5}, "near": {"mode": "off"}}})


def test_each_agent_has_its_stops_what_they_save_and_how_long_they_took(tmp_path: Path) -> None:
    """One session of `crawler` ends before the fifth repeat, one is stopped two calls later; `writer` is never stopped."""
    traffic = [*repeater(5, "five"), *repeater(7, "seven"), *healthy(4)]
    for exported in traffic:
        span = exported["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
        agent = "writer" if {"key": "session.id", "value": {"stringValue": "h"}} in span["attributes"] else "crawler"
        span["attributes"].append(attribute("gen_ai.agent.name", agent))
    old, new = replay_policies([Policy(), LAX], Files((write_lines(tmp_path / "r.jsonl", traffic),)))
    found = diff(old, new)["by_agent"]
    assert list(found) == ["crawler", "writer"]
    assert set(found["crawler"]["old"]) == {*BY_AGENT, *SPEED}
    before, after = found["crawler"]["old"], found["crawler"]["new"]
    assert [(e["sessions"], e["blocked_sessions"], e["saved_calls"]) for e in (before, after)] == [(2, 2, 6), (2, 1, 2)]
    assert [entry["saved_nano_usd"] for entry in (before, after)] == [6 * CALL_NANO_USD, 2 * CALL_NANO_USD]
    assert [entry["time_to_detection_s_p50"] for entry in (before, after)] == [2.0, 4.0]
    assert [entry["calls_to_detection_p50"] for entry in (before, after)] == [3, 5]
    assert found["writer"]["old"] == found["writer"]["new"]
    assert found["writer"]["new"]["time_to_detection_s_p50"] is None


def test_a_rule_says_how_long_the_sessions_took_that_it_stopped(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "r.jsonl", repeater(7))
    beside = diff(*replay_policies([Policy(), LAX], Files((path,))))["by_rule"]["repeat.prompt"]
    assert [beside[side]["time_to_detection_s_p50"] for side in ("old", "new")] == [2.0, 4.0]
