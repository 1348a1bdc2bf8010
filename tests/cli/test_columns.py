"""Tables that fit: what has no room is left out or cut, nothing is broken over lines."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from rich.text import Text

from spanfuse_processor.cli import words
from spanfuse_processor.cli.columns import Column, lay_out, pairs, prose
from spanfuse_processor.cli.timeline import drawn, legend

COLUMNS = (
    Column("ID", least=12, middle=True),
    Column("USER", spare=2),
    Column("COST", right=True),
    Column("TEAM", spare=1),
)
ROWS = [["checkout-4f1c-9a7e-2201", "ann", "$1.2000", "shop"], ["b", "bob", "$20.0000", "web"]]


def laid(width: int, rows: list[list[str]] = ROWS) -> list[str]:
    return [line.plain for line in lay_out(COLUMNS, rows, width)]


def test_with_room_there_is_everything() -> None:
    assert laid(80) == [
        "ID                       USER      COST  TEAM",
        "checkout-4f1c-9a7e-2201  ann    $1.2000  shop",
        "b                        bob   $20.0000  web",
    ]


def test_an_id_is_cut_in_its_middle_before_a_column_is_left_out() -> None:
    assert laid(40)[:2] == [
        "ID                  USER      COST  TEAM",
        "checkout-…a7e-2201  ann    $1.2000  shop",
    ]


def test_then_the_column_is_left_out_that_is_needed_least() -> None:
    assert laid(31)[0].split() == ["ID", "COST", "TEAM"]
    assert laid(25)[0].split() == ["ID", "COST"]


@pytest.mark.parametrize("width", range(18, 60))
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(cell_len, laid(width))) <= width


def test_wide_characters_count_as_the_cells_that_they_take() -> None:
    rows = [["界" * 20, "ann", "$1.0000", "shop"], ["b", "bob", "$2.0000", "web"]]
    for width in (25, 31, 40, 60):
        lines = laid(width, rows)
        assert max(map(cell_len, lines)) <= width
        costs = [cell_len(line.partition("$")[0]) for line in lines[1:]]
        assert costs[0] == costs[1]


def test_a_column_without_a_value_is_left_out() -> None:
    assert laid(80, [["a", "", "$1.0000", ""]])[0].split() == ["ID", "COST"]


def test_prose_is_broken_between_words_and_a_longer_word_stays_whole() -> None:
    lines = [line.plain for line in prose("a spanfuse-reset-session-checkout-42 b", 20, 2)]
    assert lines == ["  a", "  spanfuse-reset-session-checkout-42", "  b"]
    assert [line.plain for line in pairs([("who", "one two"), ("none", ""), ("why", "x")], 14)] == [
        "  who  one two",
        "  why  x",
    ]


def test_values_of_others_are_escaped_also_where_they_have_a_colour() -> None:
    (line,) = list(lay_out([Column("A")], [[Text("\x1b[2J", "red")]], 80))[1:]
    assert line.plain == r"\x1b[2J"


def steps(*loops: int) -> list[dict[str, object]]:
    return [{"loop": n, "decision": "", "rules": [], "error": ""} for n in loops]


def test_equal_steps_have_equal_letters_in_tens() -> None:
    (line,) = drawn(steps(0, 1, 2, 1, 2, 1, 2, 1, 2, 3, 3), 80, 1)
    assert line.plain.split() == ["1", "·ABABABABC", "C"]
    assert [one.plain.split()[0] for one in drawn(steps(*[0] * 150), 80, 51)] == ["51", "111", "171"]


def test_letters_that_run_out_are_a_plus_and_marks_stand_below_their_step() -> None:
    many = steps(1, 62, 63)
    many[1]["error"], many[2]["decision"] = "Timeout", "block"
    letters, marks = (line.plain for line in drawn(many, 80, 1))
    assert letters.split()[1] == "A9+"
    assert marks.index("!") == letters.index("9")
    assert marks.index("X") == letters.index("+")
    assert legend(many) == "equal letters: equal steps, + has its like, X blocked, ! failed"


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0"), (999, "999"), (1_000, "1k"), (12_345, "12.3k"), (999_950, "1M"), (2.5e9, "2.5G"), (123_456, "123k")],
)
def test_numbers_have_three_digits(number: float, said: str) -> None:
    assert words.short(number) == said


@pytest.mark.parametrize(
    ("stands", "effect"),
    [
        (None, "ok"),
        ({"state": "open", "action": "block", "mode": "enforce"}, "blocked"),
        ({"state": "open", "action": "block"}, "would block"),
        ({"state": "half_open", "action": "block", "mode": "enforce"}, "probe next"),
        ({"state": "open", "action": "block", "mode": "enforce", "expires_at_ns": 5}, "probe next"),
        ({"state": "open", "action": "block", "mode": "enforce", "expires_at_ns": 5, "lapses": True}, "ok"),
        ({"state": "open", "action": "block", "mode": "enforce", "expires_at_ns": 2**62}, "blocked"),
        ({"state": "closed", "action": "nudge", "mode": "enforce"}, "nudged"),
        ({"state": "closed"}, "ok"),
    ],
)
def test_what_happens_to_the_next_call_is_said_in_words(stands: dict[str, object] | None, effect: str) -> None:
    assert words.effect(stands) == effect


def test_bars_are_as_high_as_their_values() -> None:
    assert words.spark([0, 1, 4, 8]) == "▁▂▅█"
    assert words.spark([0, 0]) == ""
    assert words.folded([1, 2, 3, 4, 5], 3) == [3, 7, 5]
