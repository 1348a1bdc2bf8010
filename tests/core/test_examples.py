"""The examples that the first release promises, on the core alone."""

from __future__ import annotations

import secrets
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Tokens
from tests.support.agents import failure, llm, play, policy, prompt, tool, tool_loop


def test_the_same_prompt_a_fourth_time_is_blocked() -> None:
    run = play(prompt("What is the weather in Tokyo?", at=i * 0.1) for i in range(6))
    assert (run.blocked_at, run.rule) == (3, "repeat.prompt")


def test_a_prompt_that_only_counts_its_attempts_is_blocked_as_near() -> None:
    run = play(prompt(f"Fix the build, attempt {i + 1}", at=i * 0.1) for i in range(6))
    assert (run.blocked_at, run.rule) == (3, "near.prompt")


def test_a_prompt_with_another_question_each_time_is_let_through() -> None:
    run = play(prompt(f"Translate sentence {i}: word{i}", at=i * 0.1) for i in range(12))
    assert run.quiet


VOLATILE = {
    "request_id": lambda i: {"request_id": f"r{i}x{secrets.token_hex(2)}"},
    "uuid": lambda i: {"ref": str(uuid.uuid4())},
    "hex": lambda i: {"ref": secrets.token_hex(16)},
    "timestamp": lambda i: {"ref": (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=i)).isoformat()},
}


@pytest.mark.parametrize("kind", VOLATILE)
@pytest.mark.parametrize("spans", ["model calls", "tool spans"])
def test_what_changes_by_itself_inside_nested_arguments_does_not_hide_a_loop(kind: str, spans: str) -> None:
    arguments = [{"query": {"table": "orders", "meta": VOLATILE[kind](i)}} for i in range(6)]
    if spans == "model calls":
        run = play(tool_loop([("search", a, "no rows") for a in arguments]))
    else:
        calls = []
        for i, a in enumerate(arguments):
            calls.append(llm([{"role": "user", "content": f"plan {i}"}], at=i, session="s"))
            calls.append(tool("search", a, "no rows", at=i + 0.2))
        run = play(calls)
    assert (run.blocked_at, run.rule) == (3, "near.no_progress")


@pytest.mark.parametrize("period", [2, 3, 5, 12])
@pytest.mark.parametrize("ids", [False, True])
def test_a_cycle_of_prompts_is_blocked_after_three_rounds(period: int, ids: bool) -> None:
    names = [
        "Summarise",
        "Translate",
        "Check",
        "Rewrite",
        "Rank",
        "Score",
        "Sort",
        "Merge",
        "Split",
        "Tag",
        "Link",
        "Cut",
    ]
    texts = [f"{names[i % period]} the text{f' (ref {uuid.uuid4()})' if ids else ''}" for i in range(5 * period)]
    run = play(prompt(text, at=i * 0.1) for i, text in enumerate(texts))
    assert (run.blocked_at, run.rule) == (3 * period, "cycle")


@pytest.mark.parametrize("period", [2, 3, 5, 12])
def test_a_cycle_of_tool_calls_is_blocked_after_three_rounds(period: int) -> None:
    run = play(tool_loop([(f"t{i % period}", {"x": i % period}, f"r{i % period}") for i in range(5 * period)]))
    assert (run.blocked_at, run.rule) == (3 * period, "cycle")


def test_the_call_that_leaves_a_cycle_is_let_through() -> None:
    run = play(prompt(text, at=i * 0.1) for i, text in enumerate([*"ABABAB", "C"]))
    assert run.blocked_at is None
    assert run.rules == ["cycle"]


def test_tool_steps_with_one_user_message_and_different_results_are_work() -> None:
    assert play(tool_loop([("read", {"path": f"f{i}"}, f"text {i}") for i in range(10)])).quiet
    assert play(tool_loop([("next", {}, f"row {i} of the table") for i in range(9)])).quiet


def test_polling_with_changing_results_is_at_most_nudged() -> None:
    run = play(tool_loop([("poll", {"job": 7}, f"{10 * i} % done") for i in range(8)]))
    assert run.blocked_at is None
    assert {d.action for d in run.detections} <= {"nudge", "warn"}


def test_testing_after_each_edit_is_work_though_every_test_fails() -> None:
    steps = []
    for i in range(6):
        steps.append(("edit", {"path": "a.py", "text": f"version {i}"}, "ok"))
        steps.append(("test", {}, f"Error: {7 - i} tests failed, first in line {10 * i}"))
    assert play(tool_loop(steps)).quiet


def test_five_provider_failures_in_a_minute_open_the_breaker() -> None:
    run = play(failure(at=i * 10) for i in range(8))
    assert (run.blocked_at, run.rule) == (5, "errors")
    assert play(failure(at=i * 16) for i in range(8)).blocked_at is None


def test_client_errors_do_not_open_the_breaker() -> None:
    calls = (failure("400", at=i, error_class="client", text=f"question {i}") for i in range(10))
    assert play(calls).quiet


def test_a_failing_probe_opens_the_breaker_for_twice_as_long_and_a_good_one_closes_it() -> None:
    rules = policy(breaker={"cooldown_s": 10, "max_cooldown_s": 25})
    session = SessionState("s")
    pipeline = Pipeline(rules)
    for i in range(5):
        pipeline.step(session, failure(at=i * 0.1))
    for cooldown in (10, 20, 25, 25):
        held = session.decision
        assert held is not None
        assert held.expires_at_ns == held.issued_at_ns + cooldown * 10**9
        at = (held.expires_at_ns - 1_750_000_000 * 10**9) / 1e9
        assert not pipeline.step(session, prompt("in flight", at=at - 0.2, lasts=0.1)).decisions
        pipeline.step(session, failure(at=at + 1, lasts=0.1))
        reopened = session.decision
        assert reopened is not None
        assert reopened.epoch == held.epoch + 1
    held = session.decision
    assert held is not None
    assert held.expires_at_ns is not None
    after = (held.expires_at_ns - 1_750_000_000 * 10**9) / 1e9 + 1
    (closed,) = pipeline.step(session, prompt("all is well", at=after)).decisions
    assert (closed.state, closed.action) == ("closed", "allow")
    assert session.decision is None


def test_a_probe_that_repeats_the_loop_opens_the_breaker_again() -> None:
    session = SessionState("s")
    pipeline = Pipeline(policy(breaker={"cooldown_s": 10}))
    for i in range(3):
        pipeline.step(session, prompt("again", at=i))
    (reopened,) = pipeline.step(session, prompt("again", at=20)).decisions
    assert reopened.state == "open"
    assert reopened.expires_at_ns == reopened.issued_at_ns + 20 * 10**9
    (closed,) = pipeline.step(session, prompt("something else", at=60)).decisions
    assert closed.state == "closed"


def test_a_reset_closes_the_breaker_and_forgets_what_was_counted() -> None:
    session = SessionState("s")
    pipeline = Pipeline(policy())
    for i in range(3):
        pipeline.step(session, prompt("again", at=i))
    opened = session.decision
    assert opened is not None
    closed = pipeline.reset(session, 1_750_000_100 * 10**9, "ops")
    assert (closed.key, closed.state, closed.epoch) == ("session:s", "closed", opened.epoch + 1)
    for i in range(2):
        assert not pipeline.step(session, prompt("again", at=200 + i)).decisions
    assert pipeline.step(session, prompt("again", at=203)).decisions[0].state == "open"


def test_a_session_budget_lets_the_call_that_crosses_it_through_and_no_other() -> None:
    rules = policy(budget_session={"limit_usd": 0.05})
    run = play((prompt(f"question {i} about thing{i}", at=i, cost=20_000_000) for i in range(6)), rules)
    assert (run.blocked_at, run.rule) == (3, "budget.session")
    assert run.session.cost_nano_usd == 60_000_000


def test_the_step_cap_lets_exactly_that_many_calls_through() -> None:
    run = play((prompt(f"question {i} about thing{i}", at=i) for i in range(30)), policy(limits={"max_steps": 20}))
    assert (run.blocked_at, run.rule) == (20, "limits.max_steps")


def test_caps_on_tools_tokens_and_duration_hold() -> None:
    steps = [("read", {"path": f"f{i}"}, f"text {i}") for i in range(10)]
    run = play(tool_loop(steps), policy(limits={"max_tool_calls": {"read": 4}}))
    assert (run.blocked_at, run.rule) == (4, "limits.max_tool_calls")
    calls = (prompt(f"q{i} thing{i}", at=i, tokens=Tokens(input=90, output=10)) for i in range(10))
    assert play(calls, policy(limits={"max_tokens": 500})).blocked_at == 5
    calls = (prompt(f"q{i} thing{i}", at=i, lasts=0) for i in range(10))
    assert play(calls, policy(limits={"max_duration_s": 6})).blocked_at == 7


def test_the_same_calls_twice_change_nothing() -> None:
    calls = tool_loop([("search", {"q": i % 3}, "none") for i in range(40)])
    pipeline = Pipeline(policy(limits={"max_steps": 30}))
    once, twice = SessionState("s"), SessionState("s")
    first = [pipeline.step(once, c) for c in calls]
    for c in calls:
        pipeline.step(twice, c)
    again = [pipeline.step(twice, c) for c in calls]
    assert all(o.duplicates == 1 and not o.decisions and not o.charges for o in again)
    assert once.snapshot() == twice.snapshot()
    assert sum(o.counted for o in first) == len(calls)


def test_long_redelivered_batches_change_nothing_either() -> None:
    calls = [prompt(f"question {i} on thing{i}", at=i, cost=1000) for i in range(500)]
    session, pipeline = SessionState("s"), Pipeline(policy())
    for c in calls + calls:
        pipeline.step(session, c)
    assert (session.calls, session.cost_nano_usd) == (500, 500_000)


def _restating(action: str, step: int, growth: str) -> dict[str, str]:
    task = "You are a careful assistant. " + "Work on the task with the tools below, one at a time. " * 5
    return {"role": "user", "content": f"{task}\nStep {step}. So far: {growth}\nLast action: {action}"}


@pytest.mark.parametrize(
    ("actions", "stops"), [("abcdefgh", None), ("abcbdbef", None), ("abbcbbbd", 7), ("aaaaaaaa", 3)]
)
def test_an_agent_whose_framework_restates_the_task_is_judged_by_its_actions(actions: str, stops: int | None) -> None:
    history: list[dict[str, Any]] = [_restating("none", 0, "")]
    calls, growth = [], ""
    for i, name in enumerate(actions):
        asked = {
            "role": "assistant",
            "tool_calls": [{"function": {"name": "search", "arguments": f'{{"q": "{name}"}}'}}],
        }
        calls.append(llm(list(history), asked, at=i))
        growth += f" search({name}) gave result {i}."
        history += [asked, _restating(name, i + 1, growth)]
    calls.append(llm(list(history), {"role": "assistant", "content": "Done."}, at=len(actions)))
    assert play(calls).blocked_at == stops


def test_looking_again_after_other_work_is_no_repeat() -> None:
    steps = []
    for i in range(6):
        steps.append(("view", {"path": "a.py"}, "the text of the file, as it stands"))
        steps.append(("edit", {"path": f"f{i}"}, f"ok {i}"))
    assert play(tool_loop(steps)).quiet


@pytest.mark.parametrize(("between", "stops"), [(1, True), (2, False)])
def test_the_same_failure_is_followed_across_other_work_within_twelve_steps(between: int, stops: bool) -> None:
    steps: list[tuple[str, Any, str]] = []
    for i in range(6):
        steps.append(("test", {}, "Error: expected 7, got 6"))
        steps += [("edit", {"path": f"f{i}.{k}"}, f"ok {i}.{k}") for k in range(between)]
    run = play(tool_loop(steps))
    assert (run.blocked_at is not None) is stops
    assert run.detections[0].action == "nudge"
