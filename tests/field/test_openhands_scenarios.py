"""The scenarios of OpenHands' stuck detector, in our words, our model and with our thresholds.

OpenHands judges a conversation; we judge what its spans show. Where it needs four equal steps, three are enough for us.
"""

from __future__ import annotations

import pytest

from tests.support.agents import policy
from tests.support.road import CALLS, run, stopped, untouched
from tests.support.script import Act, Item, monologue, prompt, refused, tool, user

LS = tool("run", command="ls")
FILES = "file1.txt\nfile2.txt and a few more files, so that this is no mere acknowledgement"
READ = tool("read", path="file1.txt")
CONTENT = "the content of the file, which is long enough to be told from others"
A, B = READ >> CONTENT, LS >> FILES
SOME = ["repeat.no_progress", "repeat.error", "near.no_progress", "cycle"]


def test_a_history_of_one_step_is_too_short_to_judge() -> None:
    untouched(user("Hello") >> "Hi", LS >> FILES)


def test_the_same_command_with_the_same_output_is_a_loop_though_the_user_spoke_between() -> None:
    """In a run without a person, what poses as the user is part of the loop."""
    stopped(
        LS >> FILES, LS >> FILES, user("Go on.") >> "Yes.", *[LS >> FILES] * 6, after=range(4, 7), by=SOME, shows=CALLS
    )


def test_the_same_command_that_fails_in_different_ways_is_a_loop() -> None:
    """Not necessarily the same error: no attempt succeeds, and nothing is changed between them."""
    errors = ("Command not found", "Command still not found or another error", "Different error", "Command not found")
    stopped(*[tool("run", command="invalid").fails(e) for e in errors * 2], after=range(3, 5), by=SOME, shows=CALLS)


def cell(line: int, message: str, more: str = "") -> Act:
    """A cell that does not parse."""
    output = (
        f'  Cell In[1], line {line}\n  to_replace="""def largest(a, b):\n        ^\n{message}{more}\n[Jupyter cwd: /w]'
    )
    return tool("run_cell", code="edit_file('book_store.py', to_replace=...") >> output


@pytest.mark.parametrize(
    "message",
    [
        "SyntaxError: invalid syntax. Perhaps you forgot a comma?",
        "SyntaxError: incomplete input",
        "SyntaxError: unterminated string literal (detected at line 1)",
    ],
)
def test_a_cell_that_does_not_parse_at_the_same_place_again_is_a_loop(message: str) -> None:
    stopped(*[cell(42, message)] * 6, after=3, by=SOME)


@pytest.mark.parametrize("message", ["SyntaxError: invalid syntax", "SyntaxError: incomplete input"])
def test_a_cell_that_does_not_parse_at_another_place_each_time_is_no_loop_yet(message: str) -> None:
    untouched(*[cell(10 * (i + 1), message, "\n" * i) for i in range(4)])


def test_two_equal_failures_are_a_second_try() -> None:
    untouched(cell(1, "SyntaxError: unterminated string literal"), cell(1, "SyntaxError: unterminated string literal"))


def test_the_same_cell_with_other_output_each_time_is_no_loop_yet() -> None:
    lines = (("1", "Additional output"), ("1", "Too much output"), ("3", "Enough"), ("2", "Last line"))
    outputs = [f'print("hello\n   ^\nSyntaxError: unterminated (detected at line {n})\n{more}' for n, more in lines]
    untouched(*[tool("run_cell", code='print("hello') >> out for out in outputs])


def test_two_steps_in_turn_are_a_loop_after_three_rounds() -> None:
    stopped(*[A, B] * 4, after=6, by="cycle")


def test_two_steps_in_turn_are_a_loop_though_someone_said_come_on() -> None:
    come_on = user("Come on") >> "Yes."
    stopped(come_on, A, B, A, B, come_on, *[A, B] * 4, after=range(6, 14), by=SOME, shows=CALLS)


def test_five_steps_of_a_pattern_of_two_are_not_three_rounds() -> None:
    untouched(A, B, A, B, A, shows=CALLS)


def test_an_extra_step_before_the_pattern_does_not_hide_it() -> None:
    stopped(B, *[A, B] * 4, after=range(6, 8), by=SOME)


def test_other_model_calls_between_the_steps_do_not_hide_the_pattern() -> None:
    """Calls that are not of the conversation (a title, a summary) are no steps of it."""
    aside = prompt("Give this conversation a title.") >> "Files"
    steps: list[Item] = [A, B, aside, A, B, A, B, A, B, A, B]
    played = run(*steps, shows="spans")
    assert played.rule in SOME


@pytest.mark.parametrize(
    "broken",
    [
        [A, B, A, tool("run", command="pwd") >> FILES, A, B],
        [A, B, tool("read", path="file2.txt") >> CONTENT, B, A, B],
        [A, B, A, LS >> "file1.txt\na different listing of the files in this place", A, B],
        [A, B, READ >> "another content of this file, as someone has edited it meanwhile", B, A, B],
    ],
    ids=["sixth action", "fifth action", "sixth result", "fifth result"],
)
def test_a_pattern_that_is_broken_once_in_three_rounds_is_none(broken: list[Act]) -> None:
    for way in CALLS:
        assert "cycle" not in run(*broken, shows=way).rules


def test_steps_that_return_among_others_are_work() -> None:
    pwd, other = tool("run", command="pwd") >> "/home/user", tool("read", path="file2.txt") >> f"{CONTENT}, the other"
    untouched(user("Hello"), B, A, pwd, other, user("Done"), pwd, other)


def test_an_observation_between_ends_a_monologue() -> None:
    same = monologue("I'm doing well, thanks for asking.")
    untouched(user("How are you?"), same, same, A, same, same, shows=CALLS)


NUDGE = "Your last response did not include a function call or a message. Please use a tool to proceed with the task."


def test_two_empty_answers_are_no_loop() -> None:
    untouched(user("Build me an app") >> "", user(NUDGE) >> "", A, shows=CALLS)


def test_an_answer_with_content_breaks_a_row_of_empty_ones() -> None:
    nudge = user(NUDGE) >> ""
    untouched(user("Hello") >> "", nudge, user(NUDGE) >> "Let me help you with that.", nudge, nudge, shows=CALLS)


def test_a_context_that_is_condensed_again_and_again_to_the_same_prompt_is_a_loop() -> None:
    played = run(*[prompt("Summarise the conversation so far to make it fit.") >> "A summary."] * 6)
    assert (played.after, played.rule) == (3, "repeat.prompt")


def test_condensing_between_work_is_no_loop() -> None:
    """A long session condenses its history often; each time it got on between."""
    steps = [
        s
        for i in range(10)
        for s in (
            refused("context_length_exceeded"),
            tool("run", command=f"ls {i}") >> f"file{i}.txt and what else is in folder {i}",
        )
    ]
    untouched(*steps, rules=policy(), shows=CALLS)


def test_the_same_command_with_empty_output_is_a_loop() -> None:
    stopped(*[LS >> ""] * 6, after=3, by=SOME)


def test_a_person_who_speaks_after_the_stop_is_heard() -> None:
    """What is held back is the loop: a new message of the user goes through."""
    for way in CALLS:
        played = run(*[LS >> FILES] * 3, user("Stop that and explain."), shows=way, done=False)
        assert not played.stops or way == "spans"  # spans of tools alone do not tell who speaks


def test_a_monologue_is_a_loop() -> None:
    """The agent says the same again and again though nobody has answered."""
    same = monologue("I'm doing well, thanks for asking.")
    played = run(user("How are you?") >> "Fine.", *[same] * 6, shows="messages")
    assert played.after is not None
    assert played.after <= 6


def test_empty_answers_that_are_nudged_in_the_same_words_are_a_loop() -> None:
    """The framework reminds the model, and the model says nothing again."""
    played = run(user("Build me an app") >> "", *[user(NUDGE) >> ""] * 8, shows="messages")
    assert played.after is not None
    assert played.after <= 6


def test_answers_of_nothing_but_white_space_are_empty_answers() -> None:
    spaces = ["", "  ", "\n", "\t  \n"] * 2
    played = run(user("Build me an app") >> "", *[user(NUDGE) >> s for s in spaces], shows="messages")
    assert played.after is not None
    assert played.after <= 6


def test_a_context_that_overflows_again_and_again_is_a_loop() -> None:
    """Ten requests in a row that are too long for the model: no further one will do better."""
    played = run(*[refused("context_length_exceeded", "maximum context length is 128000 tokens")] * 15)
    assert played.after is not None
    assert played.after <= 10
