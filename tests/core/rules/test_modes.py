"""Each rule has a mode of its own, for all, for an agent, for a team, and where it knows one, for a tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from spanfuse_processor.config import load_config
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import ConfigError
from spanfuse_schemas import Call, Charge, Drift, Grown, Override, Policy
from spanfuse_schemas.policy import RULE_NAMES
from tests.support.agents import failure, policy, prompt
from tests.support.charges import Scope, charge, names, told
from tests.support.pace import call
from tests.support.sequences import (
    again,
    asked,
    echoes,
    failing,
    labelled,
    passes,
    polls,
    refused,
    round_and_round,
    same,
)

SETTINGS: dict[str, dict[str, Any]] = {"limits": {"max_steps": 3}, "budget.session": {"limit_usd": 0.1}}
"""What a rule needs besides its mode."""

SESSIONS: dict[str, Callable[[], list[Call]]] = {
    "repeat.no_progress": lambda: same(4),
    "repeat.error": lambda: failing(4),
    "repeat.prompt": lambda: again(4),
    "repeat.action": lambda: polls(31),
    "repeat.refused": lambda: refused(6),
    "repeat.paging": lambda: passes(4),
    "near": lambda: labelled(5),
    "cycle": lambda: round_and_round(2, 7),
    "stagnation": lambda: echoes(9),
    "drift": lambda: [prompt("pay", drift=Drift(marks=3, passage=200, traced=1), called=("pay",))],
    "safety_drift": lambda: [prompt("far", drift=Drift(turn=3, chars=100))],
    "velocity": lambda: [prompt(f"question {i} about thing{i}", at=i / 10, lasts=0.01) for i in range(300)],
    "velocity.cost": lambda: asked(12, cost=10**9),
    "velocity.burn": lambda: [call(60 * i, input=200_000, output=400) for i in range(5)],
    "spend.idle": lambda: [call(1800 * i, input=150_000, output=5) for i in range(5)],
    "spend.creep": lambda: [call(60 * i, usd=0.05 if i < 10 else 0.5) for i in range(16)],
    "context": lambda: [call(0, input=195_000, provider="anthropic", model="claude-sonnet-4-5")],
    "errors": lambda: [failure(at=i) for i in range(6)],
    "limits": lambda: asked(4),
    "budget.session": lambda: asked(4, cost=10**8),
    "handoffs": lambda: [prompt(f"remark {i}", agent="AV"[i % 2], at=i * 20) for i in range(22)],
}
"""Rules that judge a session, each with one that reaches its last threshold."""

SCOPES: dict[str, tuple[str, Callable[[], list[Charge]]]] = {
    "agent.breaker": ("agent:a", lambda: [charge(at=i, members=names(i), tripped=names(i)) for i in range(6)]),
    "fanout": ("trace:t", lambda: [charge("trace:t", at=i, members=names(i)) for i in range(27)]),
    "retries": ("agent:a", lambda: [charge(at=1, calls=50, failures=50)]),
    "adaptive": (
        "agent:a",
        lambda: [
            charge(lengths={3: 40}, spends={0: 40}),
            charge(grown=(Grown(session="l", calls=900, cost_nano_usd=0),)),
        ],
    ),
    "coverage": ("agent:a", lambda: [charge(at=100, calls=1, told=(told(10, at=100),)), charge(at=300)]),
}
"""Rules that judge a scope, each with one and what it is told."""

ONLY_WARN = ("retries", "adaptive", "coverage")
"""Rules that no mode can make stop anything."""

ASKED = {"shadow": "block", "warn": "warn", "nudge": "nudge", "block": "block"}
"""Mode → the strongest that the rule asks for."""


def with_mode(rule: str, mode: str, **override: str) -> Policy:
    """A policy in which a rule has a mode and all others are off; with an override, the rule has it only where that matches."""
    off = {name: {"mode": "off"} for name in RULE_NAMES if name != "breaker"}
    chosen = {**SETTINGS.get(rule, {}), "mode": mode}
    if not override:
        return Policy.model_validate({"mode": "enforce", "rules": {**off, rule: chosen}})
    return Policy.model_validate(
        {"mode": "enforce", "rules": off, "overrides": [{**override, "rules": {rule: chosen}}]}
    )


def run(calls: list[Call], rules: Policy) -> tuple[list[str], list[str]]:
    """What was found and what was decided: the actions, in order."""
    pipeline, session = Pipeline(rules), SessionState("s")
    outcomes = [pipeline.step(session, c) for c in calls]
    return (
        [d.action for o in outcomes for d in o.detections],
        [d.action for o in outcomes for d in o.decisions if d.action != "allow"],
    )


def scoped(rule: str, rules: Policy) -> tuple[list[str], list[str]]:
    """The same for a rule that judges a scope."""
    key, charges = SCOPES[rule]
    outcome = Scope(key, rules).take(charges())
    return [d.action for d in outcome.detections], [d.action for d in outcome.decisions if d.action != "allow"]


def test_every_rule_with_a_mode_is_here() -> None:
    assert set(SESSIONS) | set(SCOPES) == set(RULE_NAMES) - {"breaker"}


@pytest.mark.parametrize("mode", ["off", *ASKED])
@pytest.mark.parametrize("rule", SESSIONS)
def test_a_mode_says_what_comes_of_a_finding(rule: str, mode: str) -> None:
    found, decided = run(SESSIONS[rule](), with_mode(rule, mode))
    if mode == "off":
        assert (found, decided) == ([], [])
        return
    assert found[-1] == ASKED[mode]
    assert set(found) <= {"warn", "nudge", ASKED[mode]}
    assert bool(decided) is (mode in ("nudge", "block"))
    assert decided[-1:] == ([ASKED[mode]] if decided else [])


@pytest.mark.parametrize("mode", ["off", *ASKED])
@pytest.mark.parametrize("rule", SCOPES)
def test_so_it_does_for_rules_on_scopes(rule: str, mode: str) -> None:
    if rule in ONLY_WARN and mode in ("nudge", "block"):
        with pytest.raises(ValidationError, match=r"only (warns|recommends)"):
            with_mode(rule, mode)
        return
    found, decided = scoped(rule, with_mode(rule, mode))
    assert found == ([] if mode == "off" else [ASKED[mode]])
    assert decided == ([mode] if mode in ("nudge", "block") else [])


@pytest.mark.parametrize("field", ["agent", "team"])
@pytest.mark.parametrize("rule", SESSIONS)
def test_an_override_for_an_agent_or_a_team_reaches_each_rule(rule: str, field: str) -> None:
    rules = with_mode(rule, "warn", **{field: "ab*"})
    calls = SESSIONS[rule]()
    for name, fires in (("abc", True), ("xyz", False)):
        theirs = [
            c.model_copy(update={field: f"{name}{c.agent}", "span_id": f"{i + 1:016x}"}) for i, c in enumerate(calls)
        ]
        assert bool(run(theirs, rules)[0]) is fires


@pytest.mark.parametrize("rule", sorted(set(SCOPES) - {"fanout"}))
def test_an_override_for_an_agent_reaches_the_rules_on_agents(rule: str) -> None:
    assert scoped(rule, with_mode(rule, "warn", agent="a"))[0] == ["warn"]
    assert scoped(rule, with_mode(rule, "warn", agent="b"))[0] == []


OF_STEPS = ("repeat.no_progress", "repeat.error", "repeat.action", "repeat.paging", "near", "cycle", "stagnation")


@pytest.mark.parametrize("rule", OF_STEPS)
def test_an_override_for_a_tool_reaches_the_rules_on_steps(rule: str) -> None:
    calls = SESSIONS[rule]()
    tool = calls[-1].called[0]
    assert run(calls, with_mode(rule, "warn", tool=tool))[0]
    assert not run(SESSIONS[rule](), with_mode(rule, "warn", tool="another"))[0]


@pytest.mark.parametrize("rule", sorted(set(RULE_NAMES) - set(OF_STEPS)))
def test_any_other_rule_knows_no_tool_and_says_so(rule: str) -> None:
    with pytest.raises(ValidationError, match=f"an override for a tool cannot change {rule}"):
        Override(tool="search", rules={rule: {}})


def test_the_configuration_says_where(tmp_path: Any) -> None:
    file = tmp_path / "spanfuse.yaml"
    file.write_text("policies:\n  - tool: search\n    rules:\n      velocity: {mode: block}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot change velocity"):
        load_config(file, {})


def test_later_overrides_win_and_leave_what_they_do_not_name() -> None:
    overrides = (
        Override(agent="a*", rules={"repeat.prompt": {"count": 2}}),
        Override(team="t", rules={"repeat.prompt": {"mode": "warn"}}),
    )
    rules = policy().model_copy(update={"overrides": overrides})
    calls = [prompt("again", at=i, agent="ab", team="t") for i in range(2)]
    assert run(calls, rules) == (["warn"], [])
