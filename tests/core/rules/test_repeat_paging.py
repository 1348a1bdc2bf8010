"""repeat.paging: pages that follow one another are one piece of work; the same thing once more is not."""

from __future__ import annotations

from typing import Any

from spanfuse_schemas import Call
from tests.support.agents import policy, tool
from tests.support.sequences import TEXT, passes, strongest


def said(calls: list[Call], **rules: Any) -> str:
    return strongest(calls, policy(repeat_paging={"mode": "block"}, **rules), "repeat.paging")


def pages(*offsets: int, name: str = "rows", start: int = 0) -> list[Call]:
    return [
        tool(name, {"table": "a", "offset": o}, f"{name} {start + i}: {TEXT}", at=start + i)
        for i, o in enumerate(offsets)
    ]


def test_a_list_may_be_as_long_as_it_likes() -> None:
    assert said(pages(*range(0, 600, 10))) == ""


def test_the_second_pass_is_nudged_with_its_third_page_and_not_before() -> None:
    assert said(pages(0, 10, 20, 0, 10)) == ""
    assert said(pages(0, 10, 20, 0, 10, 20)) == "nudge"


def test_two_pages_are_looks_at_places() -> None:
    assert said(passes(9, pages=2)) == ""


def test_a_short_look_back_is_no_pass_of_its_own() -> None:
    """Two whole ones behind it block; one, and a look at two pages, do not."""
    assert said(pages(0, 10, 20, 0, 10, 0, 10, 20)) == "nudge"
    assert said(pages(0, 10, 20, 0, 10, 20, 0, 10, 20)) == "block"


def test_the_second_pass_may_have_other_offsets() -> None:
    assert said(pages(0, 50, 100, 150, 0, 40, 80, 120)) == "nudge"


def test_the_same_page_once_more_does_not_begin_anew() -> None:
    assert said(pages(0, 10, 20, 0, 0, 10, 20)) == "nudge"
    assert said(pages(0, 10, 20, 0, 10, 10)) == ""


def test_another_tool_begins_anew() -> None:
    assert said([*pages(0, 10, 20), *pages(0, 10, 20, name="columns", start=3)]) == ""
    assert said([*pages(0, 10, 20), *pages(5, name="columns", start=3), *pages(0, 10, 20, start=4)]) == ""


def test_another_table_begins_anew() -> None:
    other = [tool("rows", {"table": "b", "offset": o}, f"b {o}: {TEXT}", at=3 + o) for o in (0, 1, 2)]
    assert said([*pages(0, 10, 20), *other]) == ""


def test_a_tool_without_such_fields_in_between_changes_nothing() -> None:
    assert said([*pages(0, 10, 20), tool("think", "hm", TEXT, at=3), *pages(0, 10, 20, start=4)]) == "nudge"


def test_pages_may_be_counted_one_by_one() -> None:
    assert said(pages(1, 2, 3, 1, 2, 3)) == "nudge"


def test_the_first_pass_too_has_three_pages() -> None:
    assert said(pages(0, 10, 0, 10, 20)) == ""


def test_by_default_it_never_does_more_than_nudge() -> None:
    assert strongest(passes(9), policy(), "repeat.paging") == "nudge"
