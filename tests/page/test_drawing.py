"""What is drawn of numbers and steps."""

from __future__ import annotations

import pytest

from spanfuse_processor.exporters.readmodel.model import StepRow
from spanfuse_processor.page.drawing import COLOURS, letters, line, rounds, strip
from spanfuse_processor.page.formats import amount, clock, iso, lasted, money, short


@pytest.mark.parametrize(("loop", "letter"), [(0, ""), (1, "A"), (26, "Z"), (27, "AA"), (200, "GR")])
def test_equal_steps_have_a_letter(loop: int, letter: str) -> None:
    assert letters(loop) == letter


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ("xyABCABCABC", ("ABC", 3)),
        ("AAAA", ("A", 4)),
        ("ABABABAB", ("AB", 4)),
        ("ABAB", None),
        ("AAAB", None),
        ("   ", None),
        ("", None),
    ],
)
def test_rounds_at_the_end_are_seen(steps: str, found: tuple[str, int] | None) -> None:
    assert rounds(["" if s == " " else s for s in steps]) == (found and (tuple(found[0]), found[1]))


def test_a_strip_says_what_is_to_be_seen() -> None:
    rows = [StepRow(at_ns=n, loop=n % 2 + 1, kind="tool", tools=("search",)) for n in range(6)]
    rows[2] = rows[2].model_copy(update={"error": "Timeout"})
    rows[5] = rows[5].model_copy(update={"rules": ("cycle",), "decision": "block"})
    drawn = strip(rows)
    assert (
        drawn.summary
        == "6 steps, 6 of them equal to another, in 2 kinds; 1 failed; a rule fired on 1. It ends in 3 rounds of A B."
    )
    assert drawn.steps[5].label == "6: B · search; fired: cycle; decided: block"
    assert [(group.letter, group.times, group.last) for group in drawn.alike] == [("A", 3, 5), ("B", 3, 6)]
    assert strip([]).summary == "No steps are kept of this session."


def test_there_are_only_so_many_colours() -> None:
    colours = [step.colour for step in strip(StepRow(at_ns=0, loop=n) for n in range(0, 30)).steps]
    assert colours[0] == 0
    assert set(colours[1:]) == set(range(1, COLOURS + 1))


def test_a_line_stays_within_its_frame() -> None:
    assert line([0, 5, 10]) == "0.0,27.0 60.0,14.5 120.0,2.0"
    assert line([0, 0]) == "0.0,27.0 120.0,27.0"
    assert line([3]) == "0.0,2.0"
    assert line([]) == ""


def test_numbers_are_told_for_people() -> None:
    assert [money(n) for n in (0, 10**7, 12_500_000, 125 * 10**7, 1_234_567 * 10**9)] == [
        "$0", "$0.01", "$0.0125", "$1.25", "$1,234,567.00"
    ]  # fmt: skip
    assert [short(n) for n in (0, 0.52, 999, 1000, 12_345, 2.5e6, 3e9)] == [
        "0",
        "0.5",
        "999",
        "1k",
        "12.3k",
        "2.5M",
        "3B",
    ]
    assert [lasted(n * 10**9) for n in (0.25, 1.2, 42, 125, 7200, 200_000)] == [
        "250 ms", "1.2 s", "42 s", "2 min 5 s", "2 h 0 min", "2 d 7 h"
    ]  # fmt: skip
    assert (amount(1500, "steps"), amount(2 * 10**9, "usd")) == ("1,500 steps", "$2.00")


def test_a_moment_beyond_all_calendars_is_the_last() -> None:
    assert iso(2**63 - 1) == "2262-04-11T23:47:16.854Z"
    assert clock(2**80).startswith("9999-12-31")
