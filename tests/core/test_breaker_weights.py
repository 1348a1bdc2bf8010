"""Which of several reasons holds a session, and when the breaker says nothing more."""

from __future__ import annotations

from typing import Any

from spanfuse_processor.core.breaker import MAX_LOOP
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Call, Decision
from tests.support.agents import failure, policy, prompt, tool, tool_loop
from tests.support.pace import call
from tests.support.sequences import TEXT, again, asked, same


def decisions(calls: list[Call], **rules: Any) -> list[Decision]:
    """All that is decided, as where nothing is enforced."""
    pipeline, session = Pipeline(policy(**rules)), SessionState("s")
    return [d for c in calls for d in pipeline.step(session, c).decisions]


def seconds(decision: Decision) -> float:
    assert decision.expires_at_ns is not None
    return (decision.expires_at_ns - decision.issued_at_ns) / 1e9


def full(at: float, tokens: int = 195_000) -> Call:
    """A call that fills its model's window."""
    return call(at, input=tokens, provider="anthropic", model="claude-sonnet-4-5")


CONTEXT = {"context": {"mode": "block"}}


def test_a_reason_that_goes_on_is_decided_once() -> None:
    assert len(decisions(asked(10), limits={"max_steps": 3})) == 1
    assert len(decisions(again(8))) == 1
    assert len(decisions(same(8))) == 1
    assert len(decisions([full(i) for i in range(5)], **CONTEXT)) == 1


def test_a_cap_takes_over_from_what_time_would_heal_and_not_the_other_way_round() -> None:
    found = decisions([full(i) for i in range(5)], **CONTEXT, limits={"max_steps": 3})
    assert [d.rule for d in found] == ["context.blocking", "limits.max_steps"]
    found = decisions([*asked(3), *(full(10 + i) for i in range(3))], **CONTEXT, limits={"max_steps": 3})
    assert [d.rule for d in found] == ["limits.max_steps"]


def test_what_refuses_every_call_takes_over_from_a_loop_and_not_the_other_way_round() -> None:
    assert [d.scope_of_block for d in decisions([*again(3), full(10)], **CONTEXT)] == ["loop", "all"]
    assert [d.scope_of_block for d in decisions([full(0), *again(3)], **CONTEXT)] == ["all"]


def test_loops_of_one_session_add_up() -> None:
    found = decisions([*again(3), *(c.model_copy(update={"agent": "b"}) for c in same(3))])
    assert [len(d.loop) for d in found] == [1, 2]
    assert found[1].covers(again(1)[0].input)


def test_of_many_loops_the_newest_are_kept() -> None:
    many = [tool(f"t{n}", n, f"{n}: {TEXT}", at=3 * n + i) for n in range(MAX_LOOP + 3) for i in range(3)]
    found = decisions(many, cycle={"mode": "off"}, stagnation={"mode": "off"})
    assert MAX_LOOP == 24
    assert [len(d.loop) for d in found] == [*range(1, 25), 24, 24, 24]


def test_a_loop_that_is_only_foreseen_does_not_take_over_from_one_that_is_complete() -> None:
    foreseen = tool_loop([("search", "x", TEXT)] * 3)[:3]
    assert [d.conditional for d in decisions(foreseen)] == [True]
    assert [d.conditional for d in decisions([*again(3), *foreseen])] == [False]


def test_an_exact_loop_has_no_distance() -> None:
    (found,) = decisions(again(3), near={"max_distance": 3})
    assert found.max_distance == 0


def test_a_nudge_gives_way_to_a_block() -> None:
    polls = [tool("poll", 1, f"stage {chr(97 + i)}{chr(97 + i)}", at=i) for i in range(30)]
    assert [d.action for d in decisions(polls)] == ["nudge", "block"]


def test_a_probe_that_meets_the_same_rule_again_doubles_the_cooldown_and_another_closes() -> None:
    (_, again_) = decisions([full(0), full(301)], **CONTEXT)
    assert (again_.state, seconds(again_)) == ("open", 600)
    (_, closed) = decisions([full(0), full(301, 20_000)], **CONTEXT)
    assert closed.state == "closed"


def test_a_loop_stays_held_back_while_the_agent_does_something_else() -> None:
    found = decisions([*again(3), prompt("something else", at=60), *(prompt("Is it done?", at=t) for t in (310, 1000))])
    assert [seconds(d) for d in found] == [300, 600, 1200]


def test_only_a_model_call_is_a_probe() -> None:
    (_, closed) = decisions([*again(3), tool("look", 1, TEXT, at=400), prompt("what next?", at=401)])
    assert (closed.state, closed.message) == ("closed", "The probe made progress.")
    assert len(decisions([*again(3), tool("look", 1, TEXT, at=400)])) == 1


def test_a_good_probe_makes_the_next_cooldown_a_first_one() -> None:
    probes = [failure(at=310), failure(at=1000), prompt("hello", at=2400)]
    found = decisions([*(failure(at=i) for i in range(5)), *probes, *(failure(at=2500 + i) for i in range(5))])
    assert [seconds(d) for d in found if d.state == "open"] == [300, 600, 1200, 300]


def test_of_several_probes_all_have_to_go_well() -> None:
    rules = {"breaker": {"probes": 3}}
    down = [failure(at=i) for i in range(5)]
    well = [prompt(f"hello {i}", at=310 + i) for i in range(3)]
    (opened,) = decisions([*down, *well[:2]], **rules)
    assert opened.probes == 3, "as many as Guards are told to let through"
    assert [d.state for d in decisions([*down, *well], **rules)] == ["open", "closed"]


def test_the_first_of_several_probes_that_fails_opens_the_breaker_and_the_count_begins_anew() -> None:
    down = [failure(at=i) for i in range(5)]
    first = [prompt("hello", at=310), prompt("hello again", at=311), failure(at=312)]
    late = prompt("under way before it opened again", at=311.5, lasts=20)
    second = [prompt(f"hello {i}", at=1000 + i) for i in range(3)]
    found = decisions([*down, *first, late, *second], breaker={"probes": 3})
    assert [(d.state, d.expires_at_ns and seconds(d)) for d in found] == [
        ("open", 300),
        ("open", 600),
        ("closed", None),
    ]
    assert found[-1].issued_at_ns == second[-1].end_ns


def test_probes_that_went_well_are_remembered_in_the_state() -> None:
    pipeline, session = Pipeline(policy(breaker={"probes": 2})), SessionState("s")
    for one in [*(failure(at=i) for i in range(5)), prompt("hello", at=310)]:
        pipeline.step(session, one)
    restored = SessionState.restore(session.snapshot())
    assert [d.state for d in pipeline.step(restored, prompt("hello again", at=311)).decisions] == ["closed"]


def test_a_probe_that_fails_for_another_reason_says_nothing() -> None:
    found = decisions([*again(3), failure(at=310), prompt("what next?", at=320)])
    assert [d.state for d in found] == ["open", "closed"]


def test_a_loop_that_was_foreseen_and_comes_true_is_held_for_good_and_one_that_does_not_is_let_go() -> None:
    true = decisions(tool_loop([("search", "x", TEXT)] * 3))
    assert [(d.action, d.conditional) for d in true] == [("block", True), ("block", False)]
    left = decisions(tool_loop([("search", "x", TEXT)] * 2 + [("search", "x", f"news: {TEXT}")]))
    assert [(d.state, d.message) for d in left][1:] == [("closed", "The agent left the loop.")]


def test_what_was_nudged_is_blocked_when_it_is_foreseen() -> None:
    steps: list[Any] = []
    for i in range(5):
        steps += [("test", "all", "Error: expected 7"), ("edit", f"f{i}", f"{i}: {TEXT}")]
    found = decisions(tool_loop(steps))
    assert [(d.action, d.conditional) for d in found[:3]] == [("nudge", False), ("block", True), ("block", False)]
