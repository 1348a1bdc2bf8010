"""Rows for a terminal: each on one line, no value broken. What has no room is left out, the least needed column first, and at
last a value is cut, with `…`; JSON and pipes have all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from spanfuse_processor.cli.options import printable
from spanfuse_processor.cli.tables import PipedConsole

GAP: Final = 2
"""Blanks between columns."""
UNBOUNDED: Final = 100_000
"""Columns of a pipe."""
NARROWEST: Final = 8
"""No column is cut to less, cells."""

Cell = str | Text
"""A value; of a Text its style is kept."""


def terminal() -> Console:
    """Where tables are printed: without colours in a pipe or under NO_COLOR, and a pipe has room for every line."""
    console = PipedConsole(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and not os.environ.get("COLUMNS", "").isdecimal():
        console.width = UNBOUNDED
    return console


@dataclass(frozen=True)
class Column:
    """A column.

    Args:
        name: its heading.
        right: whether its values stand to the right, as numbers do.
        spare: the highest is left out first where there is no room; 0: it stays.
        least: it may be cut to so many cells before others are left out; 0: it may not.
        middle: whether it is cut in its middle, as ids are, which differ at the end.
    """

    name: str
    right: bool = False
    spare: int = 0
    least: int = 0
    middle: bool = False


def lay_out(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int, indent: int = 0) -> Iterator[Text]:
    """The lines of a table: headings, then rows. A column without any value is left out.

    Args:
        width: cells of a line.
        indent: blanks before each.
    """
    texts = [[_text(cell) for cell in row] for row in rows]
    wide = [max([cell_len(column.name), *(row[n].cell_len for row in texts)]) for n, column in enumerate(columns)]
    full = [n for n in range(len(columns)) if any(row[n].cell_len for row in texts)]
    kept = _kept(columns, full, wide, width - indent)
    sizes = _sizes(columns, kept, wide, width - indent)
    heads = [Text(column.name, "bold") for column in columns]
    for row in (heads, *texts):
        yield _line([_fitted(row[n], sizes[n], columns[n]) for n in kept], indent)


def pairs(rows: Sequence[tuple[str, Cell]], width: int, indent: int = 2) -> Iterator[Text]:
    """Names and what they are, one a line; what has no room goes on below, between words. Empty ones are left out."""
    texts = [(name, _text(value)) for name, value in rows if _text(value).cell_len]
    first = max((cell_len(name) for name, _ in texts), default=0) + GAP
    for name, value in texts:
        lines = _folded(value, max(NARROWEST, width - indent - first))
        for n, line in enumerate(lines):
            yield Text(" " * indent + ("" if n else name).ljust(first), "").append_text(line)


def prose(said: str, width: int, indent: int = 0, style: str = "") -> Iterator[Text]:
    """Sentences, broken between words."""
    for line in _words(printable(said), max(NARROWEST, width - indent)):
        yield Text(" " * indent).append(line, style)


def _text(cell: Cell) -> Text:
    if isinstance(cell, str):
        return Text(printable(cell))
    return cell if cell.plain.isprintable() else Text(printable(cell.plain), cell.style)


def _kept(columns: Sequence[Column], kept: list[int], wide: Sequence[int], room: int) -> list[int]:
    def needed() -> int:
        return sum(min(wide[n], columns[n].least or wide[n]) + GAP for n in kept) - GAP

    while needed() > room and (spare := max(kept, key=lambda n: (columns[n].spare, n), default=None)) is not None:
        if not columns[spare].spare:
            break
        kept = [n for n in kept if n != spare]
    return kept


def _sizes(columns: Sequence[Column], kept: list[int], wide: Sequence[int], room: int) -> dict[int, int]:
    """How wide each column is: those that may be cut give way, the widest first; if that is not enough, all do."""
    sizes = {n: wide[n] for n in kept}
    for least in ({n: columns[n].least or wide[n] for n in kept}, dict.fromkeys(kept, NARROWEST)):
        while sum(sizes.values()) + GAP * (len(sizes) - 1) > room:
            giving = [n for n in kept if sizes[n] > least[n]]
            if not giving:
                break
            sizes[max(giving, key=lambda n: sizes[n])] -= 1
    return sizes


def _fitted(text: Text, size: int, column: Column) -> Text:
    fitted = text if text.cell_len <= size else Text(_cut(text.plain, size, middle=column.middle), text.style)
    blanks = " " * (size - fitted.cell_len)
    return Text(blanks).append_text(fitted) if column.right else fitted + Text(blanks)


def _cut(plain: str, size: int, *, middle: bool) -> str:
    """As much of it as there is room for, with `…` where something is missing."""
    after = (size - 1) // 2 if middle else 0
    before = set_cell_size(plain, size - 1 - after).rstrip()
    end = plain[len(plain) - after :] if after else ""
    while cell_len(end) > after:
        end = end[1:]
    return f"{before}…{end}"


def _line(cells: Sequence[Text], indent: int) -> Text:
    line = Text(" " * indent)
    for n, cell in enumerate(cells):
        line.append_text(cell if n == 0 else Text(" " * GAP) + cell)
    line.rstrip()
    return line


def _folded(text: Text, width: int) -> list[Text]:
    return [text] if text.cell_len <= width else [Text(line, text.style) for line in _words(text.plain, width)]


def _words(plain: str, width: int) -> list[str]:
    """The lines of a text, broken between words; a word that is longer stays whole."""
    lines = [""]
    for word in plain.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= width or not lines[-1]:
            lines[-1] = joined
        else:
            lines.append(word)
    return lines
