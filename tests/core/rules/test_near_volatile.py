"""near.volatile: one argument changes each time, and the result does not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.agents import play, policy, tool, tool_loop

SAME = "Nothing is scheduled for that day. " * 5


def asked(count: int, result: str = SAME, **labels: Any) -> list[tuple[str, Any, str]]:
    """The same question, each time with another label."""
    return [("find", {"text": "x", **{k: make(i) for k, make in labels.items()}}, result) for i in range(count)]


@pytest.mark.parametrize("make", [lambda i: i, lambda i: i / 7, lambda i: f"run-{i}"])
def test_the_fifth_is_refused_if_it_brings_the_same(make: Any) -> None:
    run = play(tool_loop(asked(8, label=make)))
    assert (run.rule, run.blocked_at) == ("near.volatile", 5)


def test_four_fire_and_three_do_not() -> None:
    assert play(tool_loop(asked(4, label=str))).rules == ["near.volatile"]
    assert play(tool_loop(asked(3, label=str))).quiet


def test_the_count_is_a_setting() -> None:
    assert play(tool_loop(asked(5, label=str)), policy(near={"volatile_count": 6})).quiet
    assert play(tool_loop(asked(6, label=str)), policy(near={"volatile_count": 6})).rules == ["near.volatile"]
    assert play(tool_loop(asked(8, label=str)), policy(near={"mode": "off"})).quiet


def test_another_result_is_progress() -> None:
    steps = [(n, a, f"{i} {SAME}") for i, (n, a, _) in enumerate(asked(8, label=str))]
    assert play(tool_loop(steps)).quiet


def test_a_short_success_says_nothing_and_a_failure_does() -> None:
    assert play(tool_loop(asked(8, label=str, result="done"))).quiet
    assert play(tool_loop(asked(8, label=str, result="Error: no such room"))).rule == "near.volatile"


@pytest.mark.parametrize("key", ["path", "page", "offset", "order_id", "query"])
def test_what_says_what_or_where_is_another_thing(key: str) -> None:
    assert play(tool_loop(asked(8, SAME, **{key: lambda i: f"n{i}"}))).quiet


def test_names_are_other_things() -> None:
    names = ("Ada", "Grace", "Mary", "Jane", "Marie", "Emmy")
    assert play(tool_loop([("mail", {"to": n, "text": "x"}, SAME) for n in names])).quiet


def test_two_arguments_that_change_are_two_things() -> None:
    assert play(tool_loop(asked(8, label=lambda i: i, other=lambda i: i % 3))).quiet


def test_an_agent_of_which_only_tool_spans_are_seen_is_stopped_altogether() -> None:
    spans = [tool(n, a, r, at=i) for i, (n, a, r) in enumerate(asked(4, label=str))]
    decision = play(spans).decisions[-1]
    assert (decision.rule, decision.scope_of_block) == ("near.volatile", "all")


def test_a_poll_once_a_minute_is_waiting_and_only_nudged() -> None:
    run = play(tool_loop(asked(9, label=str), every=60))
    assert {d.action for d in run.detections} == {"nudge"}
    assert play(tool_loop(asked(9, label=str), every=59)).rule == "near.volatile"


def test_the_same_done_to_one_thing_after_the_other_is_only_nudged() -> None:
    """Whether `user` tells of a thing or is of no account, the tool alone does not say."""
    banned = [("ban", {"reason": "spam", "user": i}, SAME) for i in range(20)]
    run = play(tool_loop(banned))
    assert (run.blocked_at, {d.action for d in run.detections}) == (None, {"nudge"})
    failed = play(tool_loop([(n, a, "Error: no such user") for n, a, _ in banned]))
    assert (failed.blocked_at, {d.action for d in failed.detections}) == (None, {"nudge"})
