"""Field reports: work that looks repetitive and is none. Whatever makes progress is let through."""

from __future__ import annotations

import pytest

from tests.support.agents import policy
from tests.support.road import run, untouched
from tests.support.script import prompt, tool, user

LONG = "a line of the log that is long enough to be told from a mere acknowledgement: "


def test_r001_many_edits_with_results_of_their_own_are_progress() -> None:
    """The same tool with other arguments and other results is work, however often."""
    untouched(*[tool("edit", path=f"f{i}") >> f"ok f{i}" for i in range(8)])


def test_r002_a_routine_over_a_list_of_files_is_progress() -> None:
    """What returns in the names of tools alone is no cycle: arguments and results are part of a step."""
    untouched(
        *[
            step
            for f in "abcde"
            for step in (tool("grep", q=f) >> [f"{f}.x"], tool("mv", file=f) >> "ok", tool("edit", file=f) >> "ok")
        ]
    )


def test_r004_structure_within_one_answer_is_no_loop() -> None:
    """Tables, rules and code repeat lines within one text; only whole calls are compared."""
    table = "| a | b |\n" + "\n".join("| a | 1 |" for _ in range(12))
    code = "```\n" + "print(i)\n" * 30 + "-" * 80 + "\n```"
    untouched(prompt("Show it as a table.") >> table, user("Thanks. And as code?") >> code)


def test_r008_a_reader_whose_bytes_are_new_each_time_makes_progress() -> None:
    """Fifty reads of a stream with the same arguments are work while the results differ; a hint is all they may earn."""
    untouched(*[tool("read_output") >> f"{LONG}{i} rows" for i in range(20)], hints={"repeat.action"})


def test_r011_polling_whose_results_change_is_progress() -> None:
    """A build that is watched until it is done is no loop."""
    untouched(*[tool("poll", handle="h") >> r for r in ("10%", "40%", "done")])


def test_r015_no_ceiling_counts_the_name_of_a_tool_alone() -> None:
    """The sixteenth distinct read of a batch is as welcome as the first."""
    untouched(*[tool("read", path=f"f{i}") >> f"{LONG}{i}" for i in range(20)])


def test_r033_nothing_and_absent_are_different_arguments() -> None:
    """A field that is 0, false or absent says different things: no default is assumed."""
    steps = [
        tool("read", path="f", offset=0) >> f"{LONG}head",
        tool("read", path="f") >> f"{LONG}all",
        tool("read", path="f", offset=False) >> f"{LONG}none",
    ]
    untouched(*steps, *steps)
    untouched(*[tool(s.tool, s.arguments) >> f"{LONG}the same" for s in steps[:2]] * 2)


def test_r034_failures_are_counted_by_operation_not_by_tool() -> None:
    """Three items that failed once each say nothing against a fourth."""
    untouched(
        *[tool("send", item=x).fails("refused by the recipient") for x in "abc"], tool("send", item="d") >> "sent"
    )


def test_r010_a_test_that_fails_otherwise_each_time_is_progress() -> None:
    """Running the test again is work where its outcome moves."""
    steps = [
        s
        for i, f in enumerate("abcd")
        for s in (tool("test") >> f"{5 - i} failed", tool("read", path=f) >> f"{LONG}{f}")
    ]
    untouched(*steps, hints={"repeat.action", "cycle"})


def test_r130_turning_from_edits_to_tests_and_to_a_search_is_no_drift() -> None:
    """A legitimate change of the subtask is neither a loop nor drift."""
    untouched(
        *[tool("edit", path=f"src/m{i}.py") >> f"{LONG}edited m{i}" for i in range(10)],
        *[tool("test", target=f"t{i}") >> f"1 failed: t{i} KeyError 'total' line {i}" for i in range(5)],
        *[tool("web_search", q=q) >> f"{LONG}{q}" for q in ("KeyError total", "dict get default", "groupby keys")],
    )


@pytest.mark.parametrize("n", [9, 10])
def test_r007_waiting_has_a_threshold_of_its_own(n: int) -> None:
    """The call that waits may be made ten times where the operator says so, others three times."""
    rules = policy().model_validate(
        {"mode": "enforce", "overrides": [{"tool": "cmd", "rules": {"repeat.no_progress": {"count": 10}}}]}
    )
    played = run(*[tool("cmd", "") >> ""] * n, tool("other") >> "output", tool("other2") >> "more", rules=rules)
    assert (played.after is None) == (n == 9)
