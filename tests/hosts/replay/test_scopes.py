"""Replay looks beyond sessions: whole agents that would have been stopped, and agents and models side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.hosts.replay.report import Report
from spanfuse_processor.hosts.replay.states import States
from spanfuse_schemas import Policy
from tests.support.recorded import attribute, chat_span, request, write_lines
from tests.support.replays import replay_files

BREAKER = {"agent.breaker": {"mode": "block", "sessions": 2}}


def spans(session: str, count: int, start: int, *, stuck: bool = True, agent: str = "crawler") -> list[dict[str, Any]]:
    """Requests of a session that asks the same, or something new, each time."""
    made = []
    for n in range(count):
        span = chat_span(start + n, [("user", "Are we there yet?" if stuck else f"Part {n}")], session=session)
        kept = [a for a in span["attributes"] if a["key"] != "gen_ai.agent.name"]
        made.append(request({**span, "attributes": [*kept, attribute("gen_ai.agent.name", agent)]}))
    return made


def replayed(folder: Path, requests: list[dict[str, Any]], rules: dict[str, Any], **options: Any) -> Report:
    policy = Policy.model_validate({"rules": rules})
    return replay_files(policy, [write_lines(folder / "r.jsonl", requests)], **options)


@pytest.mark.parametrize("live", [1, 10_000])
def test_a_session_of_an_agent_that_would_have_been_stopped_is_refused_from_its_first_call(
    tmp_path: Path, live: int
) -> None:
    """Also where most states wait in the temporary file."""
    traffic = [*spans("a", 4, 0), *spans("b", 4, 10), *spans("c", 3, 20, stuck=False)]
    report = replayed(tmp_path, traffic, BREAKER, live_sessions=live)
    assert (report.sessions["c"].blocked_at, report.sessions["c"].rule) == (0, "agent.breaker")
    assert [(f.scope, f.rule, f.action) for f in report.scopes] == [("agent:crawler", "agent.breaker", "block")]
    assert report.rules["agent.breaker"] == 1


def test_another_agent_is_let_through(tmp_path: Path) -> None:
    traffic = [*spans("a", 4, 0), *spans("b", 4, 10), *spans("c", 3, 20, stuck=False, agent="other")]
    assert replayed(tmp_path, traffic, BREAKER).sessions["c"].blocked_at is None


def test_by_default_the_agent_is_told_of_and_nobody_is_refused(tmp_path: Path) -> None:
    traffic = [*spans("a", 4, 0), *spans("b", 4, 10), *spans("c", 3, 20, stuck=False)]
    report = replayed(tmp_path, traffic, {"agent.breaker": {"sessions": 2}})
    assert report.sessions["c"].blocked_at is None
    assert [f.action for f in report.scopes] == ["warn"]


def test_agents_and_models_are_shown_side_by_side(tmp_path: Path) -> None:
    found = replayed(tmp_path, [*spans("a", 4, 0), *spans("c", 3, 20, stuck=False, agent="other")], {}).to_dict()
    assert [(r["agent"], r["calls"], r["loops"]) for r in found["agents"]] == [("crawler", 4, 1), ("other", 3, 0)]
    assert [(r["calls"], r["sessions"], r["loops"]) for r in found["models"]] == [(7, 2, 1)]


def test_sessions_far_above_the_usual_are_found_in_their_report(tmp_path: Path) -> None:
    traffic = [r for n in range(6) for r in spans(f"s{n}", 3, n * 10, stuck=False)]
    rules = {"adaptive": {"mode": "warn", "sessions": 5, "floor_calls": 1}}
    report = replayed(tmp_path, [*traffic, *spans("long", 9, 100, stuck=False)], rules)
    assert [(d.rule, d.call) for d in report.sessions["long"].detections] == [("adaptive", 5)]


def test_states_of_a_kind_are_found_in_memory_and_in_the_file() -> None:
    states = States(ScopeState, live=2)
    for key in ("agent:a", "agent:b", "agent;x", "model:m", "agent:c", "agent:a"):
        states.get(key)
        states.trim()
    assert sorted(s.key for s in states.of_kind("agent:")) == ["agent:a", "agent:b", "agent:c"]
    assert states.known("agent:b") is not None
    assert states.known("agent:d") is None
    states.close()


BUDGETS = {
    "user/steps": {"scope": "user", "limit_steps": 5},
    "agent/steps": {"scope": "agent", "limit_steps": 100, "mode": "shadow"},
    "session/steps": {"scope": "session", "limit_steps": 40},
    "global/daily": {"scope": "global", "limit_steps": 3, "period": "daily", "mode": "warn"},
}


@pytest.mark.parametrize("live", [1, 10_000])
def test_replay_shows_what_budgets_would_have_refused_and_how_full_they_are(tmp_path: Path, live: int) -> None:
    """The sixth call of the user is refused, in whatever session it is."""
    budgets = [{"name": name, **fields} for name, fields in BUDGETS.items()]
    policy = Policy.model_validate({"budgets": budgets})
    traffic = [*spans("a", 4, 0, stuck=False), *spans("b", 4, 10, stuck=False)]
    for exported in traffic:
        exported["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"].append(attribute("user.id", "u"))
    report = replay_files(policy, [write_lines(tmp_path / "r.jsonl", traffic)], live_sessions=live)
    assert (report.sessions["a"].blocked_at, report.sessions["b"].blocked_at) == (None, 1)
    assert (report.sessions["b"].rule, report.sessions["b"].saved_calls) == ("budget.user/steps", 3)
    rows = report.to_dict()["budgets"]
    assert [(r["scope"], r["budget"], r["spent"], r["status"]) for r in rows] == [
        ("global:*", "global/daily", 8, "exhausted"),
        ("user:u", "user/steps", 8, "exhausted"),
        ("session:a", "session/steps", 4, "ok"),
        ("session:b", "session/steps", 4, "ok"),
        ("agent:crawler", "agent/steps", 8, "ok"),
    ]
    assert report.modes["budget.agent/steps"] == "shadow"
    assert {d.rule for d in report.scopes} == {"budget.user/steps", "budget.global/daily"}
