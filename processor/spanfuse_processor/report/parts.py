"""What reports are made of: tiles, bars before and after, tables, and the page that they are on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from spanfuse_processor.report.plots import Plot
from spanfuse_processor.report.timelines import Timeline

MAX_ROWS: Final = 60
"""Rows of a table; the JSON report has all."""


@dataclass(frozen=True)
class Tile:
    """A figure that is seen first."""

    name: str
    figure: str
    note: str
    bad: bool = False


@dataclass(frozen=True)
class Bar:
    """A share, drawn."""

    label: str
    share: float
    said: str
    status: str = "plain"
    """How it is coloured: `plain`, `warning`, `exhausted` or empty, which is good."""


@dataclass(frozen=True)
class Compared:
    """One measure, before and after."""

    name: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Money:
    """What an agent has spent, drawn as a part of what the dearest one has."""

    name: str
    spent: float
    """Percent of the width."""
    saved: float
    """The same, of what would have been saved."""
    label: str
    said: str


@dataclass(frozen=True)
class Table:
    """Rows under headings; a heading that begins with `>` is of numbers."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    code: int = -1
    """Column whose cells are names of rules or settings; none: -1."""
    wide: Sequence[str] = ("Settings", "What it is")
    """Headings of columns of long text."""

    @property
    def shown(self) -> Sequence[Sequence[str]]:
        """Rows that are shown."""
        return self.rows[:MAX_ROWS]

    @property
    def more(self) -> int:
        """Rows that are not."""
        return max(0, len(self.rows) - MAX_ROWS)


@dataclass
class Group:
    """Sessions of one kind, drawn."""

    title: str
    note: str
    lines: list[Timeline]


@dataclass
class Page:
    """A report."""

    title: str
    lead: list[str]
    """What it says in plain words, paragraphs."""
    made_of: str
    """What was replayed: sessions, calls, from when to when."""
    tiles: list[Tile] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list)
    """Why the figures may mean less than they seem to."""
    compared: list[Compared] = field(default_factory=list)
    legend: tuple[str, str] | None = None
    """Names of the first and second bar of each measure."""
    plots: list[Plot] = field(default_factory=list)
    money: list[Money] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    changes: Table | None = None
    """Settings that should be changed."""
    policy: str = ""
    """The same as a file."""
    tables: list[Table] = field(default_factory=list)
    details: list[Table] = field(default_factory=list)
    """Tables that are folded."""
