"""Field reports: loops are found, whatever they look like."""

from __future__ import annotations

import pytest

from tests.support.agents import policy
from tests.support.road import CALLS, ROADS, play, run, stopped, untouched
from tests.support.script import agent, together, tool

TEXT = "the text of a file, long enough to be told from a mere acknowledgement"


def test_r003_two_calls_that_alternate_are_a_cycle() -> None:
    """A counter that starts anew whenever the call changes sees nothing; three rounds of two are a cycle all the same."""
    stopped(*[tool("a", n=1) >> "x", tool("b", n=2) >> "y"] * 4, after=6, by="cycle")


def test_r011_a_cycle_of_three_with_failures_is_found() -> None:
    """Read, edit in vain, test in vain: the second round is the last."""
    round_ = [tool("read", path="f") >> TEXT, tool("edit", path="f").fails("no match"), tool("test").fails("1 failed")]
    stopped(*round_ * 4, after=6, by="cycle")


def test_r012_two_calls_that_succeed_in_turn_are_a_cycle() -> None:
    """A block of two that returns three times needs no failure to be a loop."""
    stopped(*[tool("lookup", q="a") >> "1 row", tool("search", q="b") >> "2 rows"] * 4, after=6, by="cycle")


def test_r013_a_plain_loop_trips_at_the_third() -> None:
    """The same command with the same result: three are let through, the fourth call is not."""
    stopped(*[tool("ls", path="/d") >> "x"] * 6, after=3, by="repeat.no_progress")


def test_r028_the_same_failing_query_trips_at_the_third() -> None:
    """The same call with the same error is stopped early, and the stop says which call and how often."""
    stopped(*[tool("sql", q="q").fails("bad namespace")] * 6, after=3, by=["repeat.error", "repeat.no_progress"])
    stop = run(*[tool("sql", q="q").fails("bad namespace")] * 6).stop
    assert stop is not None
    assert "sql" in stop.decision.message
    assert stop.decision.evidence.count == 3


def test_r030_no_rule_knows_a_tool_by_name() -> None:
    """Any tool's equal calls count alike."""
    for name in ("read_file", "frobnicate", "mcp__x__y"):
        stopped(*[tool(name, path="h", limit=50, offset=1) >> TEXT] * 6, after=3, by="repeat.no_progress")


FORMS = ('{"a":1,"b":2}', '{"b":2, "a":1}', '{ "a":1,"b":2 }')


def test_r031_the_order_of_keys_and_white_space_make_no_other_call() -> None:
    """JSON arguments are compared by what they say; the order of an array is part of it."""
    calls = [tool("f", form) >> TEXT for form in FORMS]
    stopped(*calls * 2, after=3, by=["near.no_progress", "repeat.no_progress"], shows=CALLS)
    for show in CALLS:
        assert run(*[tool("f", a) >> TEXT for a in ("[1,2]", "[2,1]")] * 2, shows=show).after is None


def test_r018_the_same_parallel_batch_in_any_order_is_a_repeat() -> None:
    """A turn's calls are compared as a set."""
    a, b = tool("a", n=1) >> "x", tool("b", n=2) >> "y"
    stopped(*[together(a, b), together(b, a)] * 3, after=3, by="repeat.no_progress", shows=CALLS)


def test_r010_a_failing_test_between_peeks_is_found() -> None:
    """Equal pairs of call and result count within a window, whatever lies between: told by the fourth failure, and stopped
    at the fifth."""
    steps = [s for f in "abcdefghijkl" for s in (tool("test") >> "1 failed", tool("read", path=f) >> f"{TEXT} {f}")]
    for way in ROADS:
        played = run(*steps, shows=way)
        assert played.detections, way
        assert played.detections[0].call <= 8, way
        assert played.detections[0].action == "nudge", way
        assert played.after is not None, way
    stopped(*steps, after=9, by="repeat.no_progress", shows=CALLS)


@pytest.mark.parametrize("session", ["s", None])
def test_r024_two_agents_that_hand_one_task_back_and_forth_are_a_cycle(session: str | None) -> None:
    """A hands to B, B hands to A: after three rounds the trace is in a cycle, and both are named."""
    spans = []
    for i in range(8):
        me, other = ("A", "B") if i % 2 == 0 else ("B", "A")
        handing = tool("delegate", to=other, task="t") >> f"{other} has the task"
        spans += agent(handing, session=session, name=me, at=6 * i, task=f"Task t, from {other}.", shows="both")
    played = play(spans)
    found = [d for d in played.detections if d.rule in ("cycle", "handoffs", "handoff")]
    assert found
    assert all(name in found[0].message for name in "AB")


def test_r009_a_file_read_a_second_time_at_shifted_offsets_is_a_loop() -> None:
    """Paging through a file once is work; starting over at an offset of one more is the same reading again."""
    first = [tool("read", path="f", offset=o) >> f"{TEXT}, from byte {o} on" for o in range(0, 401, 40)]
    second = [tool("read", path="f", offset=o) >> f"{TEXT}, from byte {o} on" for o in range(1, 402, 40)]
    untouched(*first, *second, hints=["repeat.paging"], shows=CALLS)
    assert "repeat.paging" in run(*first, *second).rules
    strict = policy(repeat_paging={"mode": "block"})
    stopped(*first, *second, *first, *first, after=range(22, 30), by=["repeat.paging"], shows=CALLS, rules=strict)
