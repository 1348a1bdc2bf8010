"""What is told of a session or scope agrees with what its rules do."""

from __future__ import annotations

import pytest

from spanfuse_processor.core.explain import RuleView, explain, explain_scope, of_budget
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Call, Policy, Rules
from spanfuse_schemas.policy import RULE_NAMES
from tests.support.agents import failure, prompt, tool
from tests.support.sequences import again, failing, polls, same

QUIET = {name: {"mode": "off"} for name in ("velocity", "stagnation")}


def after(calls: list[Call], rules: Rules | None = None) -> tuple[SessionState, dict[str, RuleView]]:
    """A session, and what is told of each rule."""
    rules = rules or Rules()
    pipeline, session = Pipeline(Policy(rules=rules)), SessionState("s")
    for call in calls:
        pipeline.step(session, call)
    return session, {view.rule: view for view in explain(session, rules)}


def rounds(count: int) -> list[Call]:
    return [tool(f"t{i % 3}", f"x{i % 3}", f"result {i % 3} " * 30, at=i) for i in range(3 * count)]


LIMITS: dict[str, tuple[list[Call], float]] = {
    "repeat.no_progress": (same(3), 3),
    "repeat.error": (failing(3), 3),
    "repeat.prompt": (again(3), 3),
    "repeat.action": (polls(10), 10),
    "cycle": (rounds(3), 3),
    "errors": ([failure("500", at=i) for i in range(5)], 5),
}


@pytest.mark.parametrize("rule", LIMITS)
def test_a_rule_is_told_to_be_at_its_threshold_when_it_fires_and_below_before(rule: str) -> None:
    calls, threshold = LIMITS[rule]
    _, reached = after(calls)
    assert reached[rule].fired
    assert reached[rule].counted >= threshold
    _, before = after(calls[:-1])
    assert not before[rule].fired
    assert (before[rule].counted, before[rule].threshold) == (threshold - 1, threshold)
    assert before[rule].why.startswith(f"{threshold - 1:g} of {threshold:g} ")


def test_what_stands_comes_first_and_says_why_and_that_nobody_enforces_it() -> None:
    session, _ = after(again(3))
    first, *rest = explain(session, Rules())
    assert (first.rule, first.stands) == ("repeat.prompt", True)
    assert session.decision is not None
    assert first.why == f"It tripped: {session.decision.message} Nobody enforces it: the whole is in observe."
    assert not any(view.stands for view in rest)
    assert [view.near for view in rest if view.mode != "off"] == sorted(
        (view.near for view in rest if view.mode != "off"), reverse=True
    )


def test_a_rule_that_fired_in_shadow_says_that_it_was_not_carried_out() -> None:
    rules = Rules.model_validate({"repeat.prompt": {"mode": "shadow"}})
    session, views = after(again(3), rules)
    assert session.decision is None
    assert views["repeat.prompt"].fired
    assert "in shadow" in views["repeat.prompt"].why


def test_a_rule_that_is_off_or_has_no_limit_says_so() -> None:
    _, views = after(same(1), Rules.model_validate({"cycle": {"mode": "off"}}))
    assert views["cycle"].why == "It is off here."
    assert views["limits"].why == "It cannot fire: no cap is set."
    assert views["budget.session"].threshold is None


def test_spans_without_content_are_told_to_be_the_reason() -> None:
    """An operator who sees no repeat where the eye sees one learns that nothing could be compared."""
    bare = [prompt("hello", at=i).model_copy(update={"content": "structure", "input": None}) for i in range(5)]
    _, views = after(bare)
    assert "neither content nor fingerprints" in views["repeat.no_progress"].why


def test_the_nearest_cap_and_the_money_are_told() -> None:
    rules = Rules.model_validate({"limits": {"max_steps": 10, "max_tokens": 10**9}, "budget.session": {"limit_usd": 1}})
    calls = [prompt(f"question {i}", at=i).model_copy(update={"cost_nano_usd": 100_000_000}) for i in range(4)]
    _, views = after(calls, rules)
    assert (views["limits"].counted, views["limits"].threshold, views["limits"].unit) == (4, 10, "calls")
    assert views["limits"].why == "4 of 10 calls: max_steps is the nearest cap."
    assert (views["budget.session"].counted, views["budget.session"].threshold) == (0.4, 1)


@pytest.mark.parametrize("calls", [[], *(calls for calls, _ in LIMITS.values())])
def test_every_rule_on_sessions_is_told_of_and_nothing_is_changed(calls: list[Call]) -> None:
    session, views = after(calls)
    of_scopes = {"agent.breaker", "fanout", "retries", "adaptive", "coverage", "breaker"}
    assert set(views) == set(RULE_NAMES) - of_scopes
    before = session.snapshot()
    explain(session, Rules())
    assert session.snapshot() == before
    assert all(0 <= view.near <= 1 and view.why.endswith(".") for view in views.values())


@pytest.mark.parametrize("key", ["agent:research", "trace:1", "team:red", "user:u", "global:*"])
def test_every_kind_of_scope_is_explained_also_one_that_was_never_seen(key: str) -> None:
    rules = {view.rule for view in explain_scope(ScopeState(key), Rules())}
    assert rules == {
        "agent": {"agent.breaker", "retries", "adaptive", "coverage"},
        "trace": {"fanout"},
        "team": {"retries", "coverage"},
        "global": {"retries", "coverage"},
    }.get(key.partition(":")[0], set())


def test_a_budget_says_what_is_left_whose_it_is_and_whether_it_holds_back() -> None:
    """Every scope that can stop a call is in the table, with its limit and what it has spent."""
    row = {"scope": "user:u", "budget": "user/daily", "unit": "usd", "spent": 4 * 10**9, "limit": 5 * 10**9, "used": 0.8, "status": "warning"}  # fmt: skip  # noqa: E501
    view = of_budget(row, "block", None)
    assert (view.rule, view.counted, view.threshold, view.stands) == ("budget.user/daily", 4, 5, False)
    assert view.why == "user:u has spent 4 of 5 USD: 20% is left."
    spent = row | {"spent": 6 * 10**9, "used": 1.2, "status": "exhausted"}
    assert of_budget(spent, "warn", None).why.endswith("all is spent, and its mode is warn.")
