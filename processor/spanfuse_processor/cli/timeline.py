"""The steps of a session, drawn in letters: equal steps have equal letters and colours, so that repeats and cycles show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any, Final

from rich.text import Text

LETTERS: Final = ascii_uppercase + ascii_lowercase + digits
COLOURS: Final = ("cyan", "magenta", "yellow", "green", "blue", "red", "bright_cyan", "bright_magenta", "bright_yellow")
ALONE: Final = "·"
"""A step like no other."""
FURTHER: Final = "+"
"""A step that has its like, after all letters were given."""
MARKS: Final = {"block": ("X", "red"), "nudge": ("n", "yellow"), "fired": ("^", "yellow"), "failed": ("!", "red")}
"""What stands below a step, the first that holds → its mark and colour."""
GROUP: Final = 10
"""Steps between two blanks."""


def letter(step: dict[str, Any]) -> Text:
    """The letter of a step."""
    number: int = step["loop"]
    if not number:
        return Text(ALONE, "dim")
    name = LETTERS[number - 1] if number <= len(LETTERS) else FURTHER
    return Text(name, COLOURS[(number - 1) % len(COLOURS)])


def mark(step: dict[str, Any]) -> Text:
    """What stands below it: what was decided, that a rule fired, that it failed; a blank for none."""
    holds = {
        "block": step["decision"] == "block",
        "nudge": step["decision"] == "nudge",
        "fired": bool(step["rules"]),
        "failed": bool(step["error"]),
    }
    return next((Text(*MARKS[name]) for name, is_so in holds.items() if is_so), Text(" "))


def drawn(steps: Sequence[dict[str, Any]], width: int, first: int, indent: int = 2) -> Iterator[Text]:
    """The drawing, oldest first: lines of letters with the number of the first, and below them marks, where there are any.

    Args:
        first: number of the first step.
    """
    digits_wide = len(str(first + len(steps) - 1))
    room = max(GROUP, (width - indent - digits_wide - 2 + 1) // (GROUP + 1) * GROUP)
    room = min(room, 60)
    for start in range(0, len(steps), room):
        row = steps[start : start + room]
        yield _grouped(f"{first + start:>{indent + digits_wide}}  ", [letter(step) for step in row])
        below = _grouped(" " * (indent + digits_wide + 2), [mark(step) for step in row])
        if below.plain.strip():
            below.rstrip()
            yield below


def legend(steps: Sequence[dict[str, Any]]) -> str:
    """What the signs that are there mean."""
    signs = {letter(step).plain for step in steps} | {mark(step).plain for step in steps}
    said = {
        ALONE: "like no other",
        FURTHER: "has its like",
        "X": "blocked",
        "n": "nudged",
        "^": "a rule fired",
        "!": "failed",
    }
    equal = ["equal letters: equal steps"] if any(step["loop"] for step in steps) else []
    return ", ".join([*equal, *(f"{sign} {means}" for sign, means in said.items() if sign in signs)])


def _grouped(head: str, signs: Sequence[Text]) -> Text:
    line = Text(head, "dim")
    row = Text()
    for n, sign in enumerate(signs):
        row.append_text(Text(" ") if n and n % GROUP == 0 else Text()).append_text(sign)
    return Text().append_text(line).append_text(row)
