"""The breaker between rules, probes and agents."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Call, Decision, Override, Policy
from tests.support.agents import START_NS, failure, llm, play, policy, prompt, tool, tool_loop


def run(calls: list[Call], rules: Policy | None = None) -> tuple[SessionState, list[Decision]]:
    """Feed all calls, as where nothing is enforced."""
    session, pipeline = SessionState("s"), Pipeline(rules or policy())
    return session, [d for c in calls for d in pipeline.step(session, c).decisions]


def held(session: SessionState) -> Decision:
    assert session.decision is not None
    return session.decision


LOOP = [prompt("again", at=i) for i in range(3)]
LATER = 400.0
"""Seconds, after the first cooldown."""


def span_loop(count: int = 3, **fields: Any) -> list[Call]:
    return [tool("search", {"q": "x"}, "none", at=i, **fields) for i in range(count)]


def test_what_is_worse_than_the_loop_is_not_lost_on_the_probe() -> None:
    session, _ = run([*LOOP, prompt("again", at=LATER)], policy(limits={"max_steps": 4}))
    assert (held(session).rule, held(session).expires_at_ns) == ("limits.max_steps", None)
    spent = [*LOOP, prompt("something else", at=LATER, cost=10**9)]
    session, _ = run(spent, policy(budget_session={"limit_usd": 0.5}))
    assert held(session).rule == "budget.session"
    session, _ = run([*LOOP, *(failure(at=LATER + i) for i in range(10))])
    assert (held(session).rule, held(session).scope_of_block) == ("errors", "all")


def test_a_probe_that_answers_in_text_ends_a_loop_of_tool_calls() -> None:
    asked: dict[str, Any] = {
        "role": "assistant",
        "tool_calls": [{"function": {"name": "search", "arguments": '{"q": "x"}'}}],
    }
    history: list[dict[str, Any]] = [{"role": "user", "content": "Find x."}, asked, {"role": "tool", "content": "none"}]
    done = llm(history, {"role": "assistant", "content": "There is none."}, at=LATER)
    session, decisions = run([*span_loop(), done])
    assert (decisions[-1].state, session.decision) == ("closed", None)
    session, decisions = run([*span_loop(), llm(history, asked, at=LATER)])
    assert (decisions[-1].state, decisions[-1].epoch) == ("open", 2), "it asked for the same search again"


def test_an_agent_that_turns_to_another_tool_leaves_a_loop_that_only_spans_told_of() -> None:
    session, _ = run(span_loop())
    asked = {"role": "assistant", "tool_calls": [{"function": {"name": "open", "arguments": "{}"}}]}
    elsewhere = llm([{"role": "user", "content": "Find x."}, asked, {"role": "tool", "content": "a page"}], at=5)
    asked = {"role": "assistant", "tool_calls": [{"function": {"name": "search", "arguments": '{"q": "x"}'}}]}
    again = llm([{"role": "user", "content": "Find x."}, asked, {"role": "tool", "content": "none, as ever"}], at=5)
    assert not held(session).covers(elsewhere.input, elsewhere.answers)
    assert held(session).covers(again.input, again.answers)
    fresh = prompt("All that is known so far, and what next?")
    assert held(session).covers(fresh.input, None), "it shows no sign of having left"
    assert held(session).covers(None)


def test_a_conditional_block_never_refuses_a_result_that_is_new() -> None:
    steps = [("a", 1, "x"), ("b", 2, "y"), ("a", 1, "x"), ("b", 2, "y"), ("a", 1, "x"), ("b", 2, "y")]
    calls = tool_loop(steps)
    mixed = []
    for i, call in enumerate(calls[:-1]):
        mixed.append(call)
        if i % 2 == 0:
            mixed.append(tool("a", 1, "x", at=i * 0.1 + 0.06))
    session, _ = run(mixed)
    news = tool_loop([*steps[:-1], ("b", 2, "news")])[-1]
    assert held(session).conditional
    assert not held(session).covers(news.input, news.answers)
    assert held(session).covers(calls[-1].input, calls[-1].answers)


def test_one_execution_that_several_spans_tell_of_is_one_step() -> None:
    late = []
    for i, call in enumerate(tool_loop([("search", "x", "none")] * 2, every=2)):
        late.append(call)
        if i:  # the tool's span arrives after the model call that restates it
            late.append(tool("search", "x", "none", at=2 * i - 1))
    session, decisions = run(late[:-1])
    assert not [d for d in decisions if not d.conditional]
    assert len(session.steps.ring) == 2
    nested = []
    for i in range(2):
        nested.append(tool("search", "x", "none", at=i, parent_span_id=f"{100 + i:016x}"))
        nested.append(tool("search", "x", "none", at=i - 0.01, lasts=0.1, span_id=f"{100 + i:016x}"))
    session, decisions = run(nested, policy(limits={"max_tool_calls": {"search": 3}}))
    assert (decisions, session.tool_spans) == ([], {"search": 2})


def test_a_reset_does_not_make_a_session_look_idle() -> None:
    session, _ = run(LOOP)
    heard = session.last_ns
    Pipeline(policy()).reset(session, START_NS + 10**10)
    assert session.last_ns == heard


def test_a_cap_holds_for_its_tool_however_many_others_there_are() -> None:
    calls = [tool(f"t{i}", i, f"r{i}", at=i) for i in range(60)]
    calls += [tool("delete", i, f"gone {i}", at=60 + i) for i in range(2)]
    _, decisions = run(calls, policy(limits={"max_tool_calls": {"delete": 2}}))
    assert [d.rule for d in decisions] == ["limits.max_tool_calls"]


def test_a_nudge_does_not_free_a_session_whose_block_awaits_its_probe() -> None:
    polls = [tool("poll", 1, f"{i} %", at=LATER + i) for i in range(12)]
    session, _ = run([*LOOP, *polls])
    assert (held(session).action, held(session).rule) == ("block", "repeat.prompt")


@pytest.mark.parametrize(
    ("rule", "settings"),
    [
        ("errors", {"count": 65}),
        ("repeat.no_progress", {"count": 13}),
        ("repeat.action", {"count": 41}),
        ("repeat.error", {"count": 41}),
        ("budget.session", {"limit_usd": float("inf")}),
        ("breaker", {"cooldown_s": float("nan")}),
    ],
)
def test_a_threshold_that_can_never_be_reached_is_refused(rule: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Policy.model_validate({"rules": {rule: settings}})


def test_waiting_is_no_repeat_for_prompts_and_errors_either() -> None:
    slowly = [prompt("is it done?", at=120 * i) for i in range(6)]
    assert play(slowly, policy(repeat_prompt={"min_interval_s": 60})).quiet
    assert not play(slowly).quiet
    failing = [tool("try", 1, f"Error: {i}", at=120 * i, error="E") for i in range(6)]
    assert play(failing, policy(repeat_error={"min_interval_s": 60})).quiet
    assert not play(failing).quiet


def test_prompts_in_turn_are_no_cycle_while_their_tools_find_something_new() -> None:
    calls = []
    for i in range(10):
        calls.append(prompt(["Plan.", "Carry it out."][i % 2], at=2 * i))
        calls.append(tool("work", i, f"result {i}", at=2 * i + 1))
    assert play(calls).quiet


def test_another_agents_call_does_not_withdraw_what_waits_for_this_one() -> None:
    looping = tool_loop([("search", "x", "none")] * 3)
    mine = [c.model_copy(update={"agent": "a"}) for c in looping]
    other = [prompt(f"part {i} of thing{i}", at=i * 0.1 + 0.02, agent="b") for i in range(4)]
    session, _ = run([mine[0], other[0], mine[1], other[1], mine[2], other[2]])
    assert held(session).conditional
    assert held(session).covers(mine[3].input, mine[3].answers)


def test_a_clock_that_runs_ahead_makes_no_burst() -> None:
    ahead = prompt("ahead", at=240)
    calls = [prompt(f"q{i} of thing{i}", at=i * 0.9) for i in range(260)]
    assert "velocity" not in play([ahead, *calls]).rules


def test_one_span_id_in_two_traces_is_two_calls() -> None:
    session, _ = run([prompt("a", span_id="c" * 16), prompt("b", at=1, span_id="c" * 16, trace_id="d" * 32)])
    assert session.calls == 2


def long_prompt(i: int) -> str:
    words = [f"word{k}" for k in range(2000)]
    words[150] = f"changed{i}"
    return " ".join(words)


def test_a_long_prompt_with_a_word_changed_is_blocked_as_near_and_the_guard_sees_it() -> None:
    near = policy(near={"max_distance": 3})
    run_ = play((prompt(long_prompt(i), at=i) for i in range(6)), near)
    assert (run_.blocked_at, run_.rule) == (3, "near.prompt")
    assert play(prompt(long_prompt(i), at=i) for i in range(6)).quiet, "by default only equality counts"


def test_a_prompt_that_grows_is_not_near_to_itself() -> None:
    words = [f"word{k}" for k in range(300)]
    grown = (prompt(" ".join([*words, *(f"step{k}" for k in range(i))]), at=i) for i in range(1, 12))
    assert play(grown, policy(near={"max_distance": 16})).quiet


@pytest.mark.parametrize("spans", [False, True])
def test_a_short_success_after_each_piece_of_work_is_no_loop(spans: bool) -> None:
    work = []
    for i in range(6):
        work += [
            ("edit", {"path": f"f{i}"}, "ok"),
            ("lint", {}, "0 errors"),
            ("scroll", {}, "ok"),
            ("look", {}, f"view {i}"),
        ]
    calls = tool_loop(work)
    if spans:
        made = []
        for i, (call, (name, arguments, result)) in enumerate(zip(calls, work, strict=False)):
            made += [call, tool(name, arguments, result, at=i * 0.1 + 0.06)]
        calls = made
    assert play(calls).blocked_at is None
    assert play(tool_loop([("lint", {}, "0 errors")] * 5)).blocked_at == 3


def test_workers_of_one_session_do_not_repeat_one_another() -> None:
    readers = [tool("read", "README", "a long text about it all", at=i, agent=f"worker-{i}") for i in range(6)]
    assert play(readers).quiet
    calls = []
    for turn in range(6):
        calls.append(tool("search", "x", "nothing was found at all, sorry", at=turn, agent="lost"))
        calls += [
            tool("work", turn, f"result {turn} of {k}", at=turn + k / 10, agent=f"worker-{k}") for k in range(1, 8)
        ]
    assert play(calls).rules[:1] == ["repeat.no_progress"]


def test_what_an_exempt_tool_does_is_no_step_of_a_cycle_either() -> None:
    rules = policy().model_copy(
        update={"overrides": (Override(tool="wait_*", rules={"repeat.no_progress": {"exempt": True}}),)}
    )
    calls = [
        c for i in range(9) for c in (tool("wait_for", 1, "pending", at=2 * i), tool("sleep", 1, f"{i}", at=2 * i + 1))
    ]
    assert play(calls, rules).quiet
