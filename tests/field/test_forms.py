"""Agents that write their steps in other forms."""

from __future__ import annotations

import pytest

from tests.support.road import run
from tests.support.script import Shows, tool

TEXT = "the text of a file, long enough to be told from a mere acknowledgement"
FORMS: tuple[Shows, ...] = ("scratchpad", "restated")
RESTATED: tuple[Shows, ...] = ("restated",)


@pytest.mark.parametrize("form", FORMS)
def test_r013_a_plain_loop_is_found_in_any_form(form: Shows) -> None:
    """Written into one growing prompt, or beside a task that is stated anew each turn, a loop is a loop."""
    played = run(*[tool("ls", path="/d") >> TEXT] * 8, shows=form)
    assert played.after is not None
    assert played.after <= 5


@pytest.mark.parametrize("form", ["scratchpad"])
def test_r010_a_loop_with_peeks_between_is_found_where_results_stand_alone(form: Shows) -> None:
    """Beside a restated task a failure is not told from a success, so there it is not."""
    steps = [
        s for f in "abcdef" for s in (tool("test") >> "1 failed: test_total", tool("read", path=f) >> f"{TEXT} {f}")
    ]
    assert run(*steps, shows=form).after is not None


@pytest.mark.parametrize("form", FORMS)
def test_r003_a_cycle_is_found_in_any_form(form: Shows) -> None:
    played = run(*[tool("a", n=1) >> f"{TEXT} x", tool("b", n=2) >> f"{TEXT} y"] * 6, shows=form)
    assert played.after is not None
    assert played.after <= 9


@pytest.mark.parametrize("form", FORMS)
def test_r001_work_is_work_in_any_form(form: Shows) -> None:
    played = run(*[tool("read", path=f"f{i}") >> f"{TEXT} {i}" for i in range(20)], shows=form)
    assert not played.stops
    assert played.actions <= {"warn", "nudge"}


@pytest.mark.parametrize("form", FORMS)
def test_r002_a_routine_is_work_in_any_form(form: Shows) -> None:
    steps = [
        s for f in "abcde" for s in (tool("grep", q=f) >> f"{f}.x", tool("mv", f=f) >> "ok", tool("edit", f=f) >> "ok")
    ]
    assert not run(*steps, shows=form).stops


@pytest.mark.parametrize("form", FORMS)
def test_r034_failures_of_other_items_are_no_loop_in_any_form(form: Shows) -> None:
    assert not run(*[tool("send", item=x).fails("refused") for x in "abcdef"], shows=form).stops


@pytest.mark.parametrize("form", FORMS)
def test_edits_between_failing_tests_are_work_in_any_form(form: Shows) -> None:
    edits = [tool("edit", path="a.py", text=f"attempt number {i} at it") >> f"edit {i}" for i in range(6)]
    assert not run(
        *[s for i, edit in enumerate(edits) for s in (edit, tool("test") >> f"{7 - i} failed")], shows=form
    ).stops


@pytest.mark.parametrize("form", RESTATED)
def test_r008_a_reader_with_new_results_makes_progress_in_any_form(form: Shows) -> None:
    """Where the task is stated anew beside each result, a result that differs still differs."""
    assert not run(*[tool("read_output") >> f"{TEXT}: row {w}" for w in "abcdefgh"], shows=form).stops


@pytest.mark.parametrize("form", RESTATED)
def test_r011_a_queue_is_drained_in_any_form(form: Shows) -> None:
    steps = [s for w in "abcdef" for s in (tool("pop") >> f"item {w}", tool("work", item=w) >> f"{TEXT} {w}")]
    assert not run(*steps, shows=form).stops


@pytest.mark.parametrize("form", RESTATED)
def test_r010_a_check_that_passes_after_each_edit_is_work_in_any_form(form: Shows) -> None:
    edits = [tool("edit", path="a.py", new=f"return {w}") >> f"edited: return {w}" for w in ("a", "b", "c", "d", "e")]
    check = tool("bash", command="mypy .") >> "Success: no issues found in 12 source files"
    assert not run(*[s for edit in edits for s in (edit, check)], shows=form).stops
