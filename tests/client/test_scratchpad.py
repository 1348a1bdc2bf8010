"""The scratchpad of an agent that keeps all in one prompt: its last step is read as if it had come as messages."""

from __future__ import annotations

import pytest

from spanfuse.decisions.shown import Shown
from spanfuse.reading.messages import read_messages
from spanfuse.reading.scratchpad import Scratchpad, read_scratchpad
from tests.support.effort import growth

TASK = "Answer the question.\nQuestion: how much does it rain in Lisbon?\n"
STEP = 'Thought: I look.\nAction: search\nAction Input: {"query": "rainfall of Lisbon"}\nObservation: 774 mm\n'
READ = Scratchpad(1, "search", '{"query": "rainfall of Lisbon"}', "774 mm")


@pytest.mark.parametrize("cue", ["", "Thought:", "Thought: ", "\n\nThought:\n"])
def test_the_last_step_is_read_with_or_without_a_cue_for_the_model(cue: str) -> None:
    assert read_scratchpad(TASK + STEP + cue) == READ


def test_steps_are_counted_and_the_last_one_wins() -> None:
    again = STEP.replace("774", "775")
    assert read_scratchpad(TASK + STEP + again) == READ._replace(steps=2, observation="775 mm")


def test_other_spellings_of_an_action_are_read() -> None:
    one_line = "Action 1: Search[rainfall]\nObservation 1: 774 mm"
    assert read_scratchpad(one_line) == Scratchpad(1, "Search", "[rainfall]", "774 mm")


@pytest.mark.parametrize(
    "text",
    [
        TASK,
        "Observation: it rains",
        STEP + "Question: and in Porto?\nAction: search\n",
        "My observation: none\nAction: x",
    ],
)
def test_what_does_not_end_with_an_observation_of_an_action_is_a_prompt(text: str) -> None:
    assert read_scratchpad(text) is None


def test_a_growing_prompt_with_the_same_last_step_shows_the_same_step() -> None:
    first, second = (read_messages([{"role": "user", "content": TASK + STEP * n}]) for n in (1, 2))
    assert (first.input, first.answers) == (second.input, second.answers)
    assert (first.history, second.history) == (2, 4)


def test_a_guard_that_is_shown_the_prompt_as_text_reads_what_ingest_reads() -> None:
    read = read_messages([{"role": "user", "content": TASK + STEP}])
    assert Shown(TASK + STEP, None)() == Shown(None, TASK + STEP)() == (read.input, read.answers, False)


@pytest.mark.parametrize(
    "filler", [" ", "\n", "\t \n", "Observation ", "Action:\n", "Observation:\n", "Action Input", "1", "thought:"]
)
def test_reading_takes_time_in_proportion_to_the_text(filler: str) -> None:
    """No text makes it look at the same place again and again."""

    def read(chars: int) -> None:
        read_scratchpad("Action: a\nObservation:" + filler * (chars // len(filler)) + "x")

    assert growth(read, 20_000) < 40
