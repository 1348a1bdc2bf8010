"""stagnation: the agent goes on, and next to nothing it does or sees is new."""

from __future__ import annotations

import random
from typing import Any

from tests.support.agents import llm, play, policy, tool, tool_loop

Steps = list[tuple[str, Any, str]]


def wander(kinds: int, steps: int, *, seed: int = 7) -> Steps:
    """A few steps again and again in no order, never the same one often enough nearby for another rule."""
    order = random.Random(seed)
    found: list[int] = []
    while len(found) < steps:
        options = [k for k in range(kinds) if found[-11:].count(k) < 2]
        found.append(order.choice(options))
    return [("look", {"at": f"place-{k}"}, f"a description of place {k}, with all that one sees there") for k in found]


def novel(count: int) -> Steps:
    return [("look", {"at": f"new-{i}"}, f"something not seen before, number {i}, of many words") for i in range(count)]


def test_a_few_steps_in_any_order_are_nudged_and_then_blocked() -> None:
    run = play(tool_loop(wander(12, 60)))
    assert run.rule == "stagnation"
    assert [d.action for d in run.detections if d.rule == "stagnation"] == ["nudge", "block"]


def test_an_agent_that_sees_new_things_now_and_then_goes_on() -> None:
    steps = [step for old, new in zip(wander(12, 60), novel(60), strict=True) for step in (old, new)]
    assert "stagnation" not in play(tool_loop(steps)).rules


def test_a_short_session_is_not_judged() -> None:
    assert "stagnation" not in play(tool_loop(wander(12, 29))).rules


def shares(new: int, window: int, **settings: Any) -> list[str]:
    """A window with so many new steps, the others seen before: what stagnation asks for at its end."""
    known = novel(6)
    again = [known[i % 6] for i in range(window - new)]
    fresh = [("look", {"at": f"fresh-{i}"}, f"a fresh thing, number {i}, of many words") for i in range(new)]
    rules = policy(
        stagnation={"window": window, **settings},
        cycle={"mode": "off"},
        near={"mode": "off"},
        repeat_no_progress={"mode": "off"},
    )
    steps = known + fresh + again
    run = play([tool(n, a, r, at=i) for i, (n, a, r) in enumerate(steps)], rules)
    return [d.action for d in run.detections if d.rule == "stagnation"]


def test_the_nudge_comes_under_its_floor_and_not_at_it() -> None:
    assert shares(4, 20, nudge_below=0.2, block_below=0.0) == []
    assert shares(3, 20, nudge_below=0.2, block_below=0.0) == ["nudge"]


def test_the_block_comes_under_its_floor_and_not_at_it() -> None:
    assert shares(2, 20, nudge_below=0.1, block_below=0.1) == []
    assert shares(1, 20, nudge_below=0.1, block_below=0.1) == ["block"]
    assert shares(2, 20, nudge_below=0.2, block_below=0.1)[-1] == "nudge"


def echo(count: int) -> Steps:
    words = (
        "Session concluded, goodbye",
        "All work is finished now",
        "Awaiting new instructions",
        "Nothing left to be done",
    )
    return [("echo", {"command": f"echo '{words[i % 4]} ({i})'"}, f"{words[i % 4]} ({i})") for i in range(count)]


def test_actions_that_bring_nothing_but_their_own_words_are_blocked_after_eight() -> None:
    run = play(tool_loop(echo(11)))
    assert (run.rule, run.blocked_at) == ("stagnation", 9)
    assert [d.action for d in run.detections] == ["nudge", "block"]


def test_seven_are_only_nudged_and_five_are_not_seen() -> None:
    assert [d.action for d in play(tool_loop(echo(7))).detections] == ["nudge"]
    assert play(tool_loop(echo(5))).quiet


def test_what_another_step_brings_ends_the_row() -> None:
    steps = [*echo(7), ("read", {"path": "x"}, "a text that nobody had said"), *echo(14)[7:]]
    assert play(tool_loop(steps)).blocked_at is None


def test_a_prompt_of_the_shell_that_was_there_before_adds_nothing() -> None:
    shell = "(Open file: n/a)\n(Current directory: /)\nbash-$"
    steps = [("run", {"command": "ls /srv"}, f"a b c\n{shell}")]
    steps += [(n, a, f"{r}\n{shell}") for n, a, r in echo(11)]
    assert play(tool_loop(steps)).rule == "stagnation"


def test_its_mode_counts() -> None:
    assert play(tool_loop(echo(11)), policy(stagnation={"mode": "off"})).quiet
    warned = play(tool_loop(echo(11)), policy(stagnation={"mode": "warn"}))
    assert (warned.blocked_at, {d.action for d in warned.detections}) == (None, {"warn"})


def test_a_call_without_steps_says_nothing() -> None:
    assert play([llm([{"role": "user", "content": f"question {i}"}], at=i) for i in range(40)]).quiet
