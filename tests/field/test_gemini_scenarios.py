"""The scenarios of Gemini CLI's loop detection, in our words, our model and with our thresholds.

It counts requests for tools in a row (five) and repeated pieces of text in a stream (ten). We count steps with their results
(three), across turns, and do not judge the text of one answer. What it asks another model about is no affair of ours.
"""

from __future__ import annotations

import pytest

from spanfuse_processor.core.pipeline import Pipeline
from tests.support.agents import policy
from tests.support.road import CALLS, play, run, stopped, untouched
from tests.support.script import agent, prompt, refused, together, tool, user

SAME = tool("testTool", param="value") >> "the same result as ever, long enough to be told from an acknowledgement"
OTHERS = [tool("testTool", param="value1"), tool("testTool", param="value2"), tool("anotherTool", param="value1")]
LOOPS = ["repeat.no_progress", "near.no_progress", "cycle"]


def test_fewer_equal_calls_than_the_threshold_are_no_loop() -> None:
    untouched(*[SAME] * 2)


def test_the_call_after_the_threshold_is_refused() -> None:
    stopped(*[SAME] * 3, after=3, by=LOOPS, shows=CALLS)


def test_every_later_equal_call_would_be_refused_too() -> None:
    """The decision stands while the loop goes on, until its cooldown ends."""
    played = run(*[SAME] * 10, obey=False)
    assert played.states["s"].decision is not None
    assert played.states["s"].decision.action == "block"


def test_different_calls_are_no_loop_while_their_results_differ() -> None:
    untouched(*[call >> f"result {i} of round {n}, which is new" for n in range(3) for i, call in enumerate(OTHERS)])


def test_different_calls_in_turn_with_the_same_results_are_a_cycle() -> None:
    stopped(*[c >> f"result {i}, as before" for _ in range(4) for i, c in enumerate(OTHERS)], after=9, by="cycle")


def test_alternating_calls_are_a_cycle() -> None:
    """A counter that starts anew with each other call would never see it."""
    stopped(*[OTHERS[0] >> "result one", OTHERS[1] >> "result two"] * 5, after=6, by="cycle")


def test_what_is_no_tool_call_does_not_reset_the_count() -> None:
    """A refusal of the provider between two equal steps is no progress."""
    stopped(SAME, SAME, refused("503"), SAME, SAME, after=range(3, 5), by=LOOPS, shows=CALLS)


def test_detection_that_is_off_says_nothing() -> None:
    off = {name: {"mode": "off"} for name in ("repeat_no_progress", "near", "cycle", "repeat_action")}
    assert not run(*[SAME] * 12, rules=policy(**off)).detections


def test_detection_that_is_switched_off_later_says_nothing_more() -> None:
    """After the rules are off and the session is released, the same calls go through."""
    spans = agent(*[SAME] * 8, done=False)
    first = play(spans[:8])
    assert first.stops
    off = policy(**{name: {"mode": "off"} for name in ("repeat_no_progress", "near", "cycle", "repeat_action")})
    state = first.states["s"]
    Pipeline(off).reset(state, state.last_ns, "ops")
    assert not play(spans[8:], off, states=first.states).stops


def test_a_second_strike_lasts_longer() -> None:
    """An agent that goes on with the loop after its cooldown is held back for twice as long."""
    rules = policy(breaker={"cooldown_s": 60})
    first = play(agent(*[SAME] * 3, done=False), rules)
    held = first.states["s"].decision
    assert held is not None
    loop = agent(*[SAME] * 5, at=0, done=False)
    late = [s for s in loop if s.model_call][4:]
    for sent in late:
        for key in ("startTimeUnixNano", "endTimeUnixNano"):
            sent.span[key] = str(int(sent.span[key]) + 300 * 10**9)
        sent.end_ns += 300 * 10**9
    again = play(late, rules, states=first.states).states["s"].decision
    assert again is not None
    assert again.expires_at_ns is not None
    assert held.expires_at_ns is not None
    assert again.expires_at_ns - again.issued_at_ns == 2 * (held.expires_at_ns - held.issued_at_ns)


def test_another_session_starts_the_count_afresh() -> None:
    spans = [s for n in range(3) for s in agent(SAME, SAME, session=f"s{n}", at=20 * n, trace=f"{n + 1:032x}")]
    assert not play(spans).detections


TEXTS = {
    "chanting": "I will not output any text.\nI will just end the turn.\nI am done.\n" * 20,
    "alternating phrases": "Thinking... Done. " * 100,
    "shared prefix": "\n".join(f"- projects/my-project-12345/locations/us-central1/services/{i}" for i in range(15)),
    "code": "```js\n" + "for (let i = 0; i < 10; i++) { console.log(i); }\n" * 20 + "```",
    "table": "| Column 1 | Column 2 |\n" + "| a | b |\n" * 20,
    "list": "\n".join("* List item" for _ in range(20)),
    "headings": "## Heading\n\n> Quote text\n" * 10,
    "divider": "-" * 800,
}


@pytest.mark.parametrize("kind", TEXTS)
def test_what_repeats_within_one_answer_is_not_judged(kind: str) -> None:
    untouched(user("Write it down.") >> TEXTS[kind], user("Thanks, and now the other one.") >> TEXTS[kind] + " x")


@pytest.mark.parametrize("kind", ["chanting", "alternating phrases"])
def test_the_same_answer_to_the_same_words_turn_after_turn_is_a_loop(kind: str) -> None:
    """Chanting across turns: a framework that says "continue" to an agent that says it is done."""
    played = run(*[user("Please continue.") >> TEXTS[kind][:400]] * 8, shows="messages")
    assert played.after is not None
    assert played.after <= 5


def test_the_same_thought_before_each_new_step_is_no_loop() -> None:
    """What the agent says while it gets on is not judged; what it does is."""
    thought = "I need to check the file."
    untouched(
        *[
            s
            for i in range(8)
            for s in (tool("think", thought=thought) >> "ok", tool("read", n=i) >> f"row {i} of many")
        ]
    )


def test_equal_steps_that_lie_far_apart_are_no_loop() -> None:
    """With enough work between, looking again is right."""
    work = [[tool("edit", path=f"f{n}{i}") >> f"edited line {n}{i} of the file" for i in range(12)] for n in range(4)]
    untouched(*[s for part in work for s in (SAME, *part)])


def test_random_answers_are_no_loop() -> None:
    words = ["tide", "moss", "clock", "rope", "salt", "bee", "chalk", "owl", "fern", "slate"]
    untouched(*[prompt(f"Say {a} {b}") >> f"{b} {a}" for a in words for b in words[:3]])


def test_the_same_tools_in_one_turn_count_once() -> None:
    untouched(together(*[SAME] * 5), user("Good.") >> "Yes.", shows=CALLS)


def test_a_turn_limit_ends_a_session_that_never_loops() -> None:
    """Where no loop is found, a cap on turns still is one."""
    steps = [tool("read", n=i) >> f"row {i} of many more rows" for i in range(40)]
    played = run(*steps, rules=policy(limits={"max_steps": 30}))
    assert (played.after, played.rule) == (30, "limits.max_steps")


def test_a_new_question_of_the_user_starts_the_count_afresh() -> None:
    """Two equal calls for one question and two for the next are no row of four."""
    untouched(
        user("What is in the file?"), SAME, SAME, user("And who wrote it?"), SAME, SAME, shows=("messages", "both")
    )


def test_four_questions_that_need_the_same_look_are_a_conversation() -> None:
    """Whoever asks four things that are answered from one listing makes the agent list four times."""
    questions = ("How many files?", "Which is the largest?", "Is there a README?", "And a licence?")
    untouched(*[s for q in questions for s in (user(q), SAME)], shows=("messages", "both"))
