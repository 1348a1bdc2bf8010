"""Field reports: what one turn does at the same time is one step."""

from __future__ import annotations

from tests.support.road import CALLS, stopped, untouched
from tests.support.script import together, tool, user

TEXT = "the text of a file, long enough to be told from a mere acknowledgement"


def test_r016_five_parallel_reads_of_the_first_turn_are_one_step() -> None:
    """A run that opens by reading five files at once has hardly begun."""
    untouched(together(*[tool("read", path=f"f{i}") >> f"{TEXT} {i}" for i in range(5)]), shows=CALLS)


def test_r016_even_the_same_read_five_times_in_one_turn_is_one_step() -> None:
    """The model saw none of the results when it asked for the others."""
    untouched(together(*[tool("read", path="f") >> TEXT] * 5), tool("write", path="g") >> "wrote g", shows=CALLS)


def test_r017_a_mistake_in_a_parallel_batch_is_one_failure() -> None:
    """Eight calls that fail together are one observation, to which the model can react."""
    batch = together(*[tool("agg", column=i).fails("groupby empty") for i in range(8)])
    untouched(batch, tool("agg", column="all") >> "total 7 of all columns", shows=CALLS)


def test_r017_a_parallel_mistake_made_again_and_again_is_a_loop() -> None:
    """The same failing batch in three turns is as much a loop as one failing call."""
    batch = together(*[tool("agg", column=i).fails("groupby empty") for i in range(8)])
    stopped(*[batch] * 5, after=3, by=["repeat.no_progress", "repeat.error"], shows=CALLS)


def test_r016_a_second_question_may_open_with_the_same_reads() -> None:
    """Reading the same five files once more for another question is no loop."""
    reads = together(*[tool("read", path=f"f{i}") >> f"{TEXT} {i}" for i in range(5)])
    untouched(reads, user("And what of the tests?"), reads, shows=CALLS)
