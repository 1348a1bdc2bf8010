"""Field reports on progress: the ordinary day of a coding agent, a check after each change and a list that is ticked off."""

from __future__ import annotations

import pytest

from tests.support.road import untouched
from tests.support.script import tool

CODE = (
    "return a + b",
    "return sum(items)",
    "return sum(i.price for i in items)",
    "return round(total, 2)",
    "return Decimal(total)",
    "return total - discount",
)
EDITS = [tool("edit", path="a.py", new=line) >> f"The file a.py has been edited: {line}" for line in CODE]
CHECKS = {
    "mypy .": "Success: no issues found in 12 source files",
    "pytest -q": "....................................... [100%]\n41 passed",
    "git status": "On branch main\nnothing to commit, working tree clean",
}
TASKS = (
    "Fix the parser",
    "Add a test for empty input",
    "Update the changelog",
    "Run the whole suite",
    "Open the request",
)
LISTED = (
    "Todos have been modified successfully. Ensure that you continue to use the todo list to track your progress. Please "
    "proceed with the current tasks if applicable"
)


def todos(done: int) -> list[dict[str, str]]:
    states = ["completed" if i < done else "in_progress" if i == done else "pending" for i in range(len(TASKS))]
    return [{"content": task, "status": state} for task, state in zip(TASKS, states, strict=True)]


@pytest.mark.parametrize("command", CHECKS)
def test_r010_a_check_that_passes_after_each_edit_is_work(command: str) -> None:
    """An agent that runs the same check after each of its changes, and is told each time that all is well, gets on."""
    untouched(*[step for edit in EDITS for step in (edit, tool("bash", command=command) >> CHECKS[command])])


def test_r010_three_attempts_at_one_failing_test_are_work() -> None:
    """The same failure after three different edits earns a word, not a stop: the fourth edit may be the one."""
    failure = "FAILED test_total - AssertionError: expected 7, got 6\n1 failed, 3 passed"
    steps = [step for edit in EDITS[:4] for step in (edit, tool("test") >> failure)]
    untouched(*steps, tool("test") >> "4 passed", hints={"repeat.no_progress", "cycle"})


def test_r001_a_list_of_tasks_that_is_ticked_off_is_progress() -> None:
    """The list is written again after each task: only a status has changed, and that is the progress."""
    untouched(
        *[
            step
            for n, task in enumerate(TASKS)
            for step in (
                tool("todo_write", todos=todos(n)) >> LISTED,
                tool("bash", command=f"make {task}") >> f"what came of it: {task}",
            )
        ]
    )


def test_r034_a_number_that_is_tuned_is_another_attempt() -> None:
    """`retries = 3`, then 5, then 8: what looks like a counter to the canonical form is what is being tried."""
    steps = [
        step
        for n in (3, 5, 8)
        for step in (
            tool("edit", path="conf.ini", new=f"retries={n}") >> "ok",
            tool("test") >> "1 failed: test_fetch timed out",
        )
    ]
    untouched(*steps, tool("test") >> "all passed", hints={"repeat.no_progress", "cycle", "near.no_progress"})
