"""Field reports on progress, made harder: long arguments that differ in what matters, and in little else."""

from __future__ import annotations

import pytest

from tests.support.road import untouched
from tests.support.script import together, tool

PEOPLE = ("alice", "bob", "carla", "dmitri", "erin", "farid", "greta", "hiro")
LONG = (
    "nothing was found for it: there is no such order in this year or the last one, and none in the archive of the years "
    "before, nor in that of the company it belonged to"
)


def test_r002_a_search_and_a_replacement_per_file_are_work_though_the_results_read_alike() -> None:
    untouched(
        *[
            s
            for p in PEOPLE
            for s in (
                tool("grep", pattern="old_name", path=f"{p}.py") >> "1 match",
                tool("sed", path=f"{p}.py") >> "ok",
            )
        ]
    )


@pytest.mark.parametrize("result", ["ok", "", "true", '{"status":"success"}'])
def test_r001_acknowledgements_alone_are_no_repetition(result: str) -> None:
    """What differs is what was done; that each was acknowledged alike says nothing."""
    untouched(*[tool("create_row", name=p) >> result for p in PEOPLE])


def test_r010_the_same_test_after_each_edit_is_work_until_it_passes() -> None:
    """The test says the same each time, and each time something was changed before it."""
    failed = "1 failed: test_total expected 7, got 6"
    steps = [
        s
        for i in range(6)
        for s in (tool("edit", path="a.py", text=f"attempt number {i} at it") >> f"edit {i}", tool("test") >> failed)
    ]
    untouched(*steps[:5], tool("test") >> "all passed", hints={"repeat.no_progress"})


def test_r016_the_same_parallel_batch_over_other_items_is_work() -> None:
    untouched(*[together(*[tool("read", path=f"{p}/{i}") >> f"{p}{i} {LONG}" for i in range(4)]) for p in PEOPLE])


def test_r011_a_queue_that_is_drained_is_work() -> None:
    """The same call takes another item each time, until there is none."""
    untouched(
        *[tool("next_task") >> f"task {p}" for p in PEOPLE], tool("next_task") >> "none left", hints={"repeat.action"}
    )


def test_r033_pages_are_told_by_their_number() -> None:
    untouched(
        *[tool("list", page=i, per_page=50) >> f"rows {50 * i} to {50 * i + 49}" for i in range(12)],
        hints={"repeat.action"},
    )
