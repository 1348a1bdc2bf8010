"""What is drawn: minutes as lines, shares as bars, the steps of a session as letters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from spanfuse_processor.exporters.readmodel.model import StepRow

WIDTH: Final = 120
HEIGHT: Final = 28
COLOURS: Final = 12
"""Colours of steps; the letter tells apart what has the same."""
FEW: Final = 3
"""Cycles are told from so many rounds on."""


def line(values: Sequence[float]) -> str:
    """The points of a line through values, within `WIDTH` by `HEIGHT`; zero is at the bottom."""
    top = max(values, default=0) or 1
    step = WIDTH / max(1, len(values) - 1)
    return " ".join(f"{i * step:.1f},{HEIGHT - 1 - (HEIGHT - 3) * v / top:.1f}" for i, v in enumerate(values))


def area(values: Sequence[float]) -> str:
    """The points of what is below that line."""
    return f"0,{HEIGHT} {line(values)} {WIDTH},{HEIGHT}"


def letters(loop: int) -> str:
    """A for the first number, Z for the 26th, AA after it; nothing for 0."""
    found = ""
    while loop > 0:
        loop, rest = divmod(loop - 1, 26)
        found = chr(ord("A") + rest) + found
    return found


@dataclass(frozen=True)
class Step:
    """A step of the timeline, as it is drawn."""

    n: int
    """Its place among the steps shown, from 1."""
    row: StepRow
    """What is known of it."""
    letter: str
    """Equal steps have the same; empty: it is like no other."""
    colour: int
    """1 to `COLOURS`, likewise; 0: like no other."""
    does: str
    """What it does, such as `search` or `gpt-4o → search`."""

    @property
    def label(self) -> str:
        """All of it in one line."""
        row = self.row
        alike = f"{self.letter} · " if self.letter else ""
        parts = [f"{self.n}: {alike}{self.does}"]
        parts += [f"failed: {row.error}"] if row.error else []
        parts += [f"fired: {', '.join(row.rules)}"] if row.rules else []
        parts += [f"decided: {row.decision}"] if row.decision else []
        return "; ".join(parts)


@dataclass
class Alike:
    """Steps that are equal."""

    letter: str
    colour: int
    does: str
    times: int = 0
    tokens: int = 0
    cost_nano_usd: int = 0
    last: int = 0
    """Place of the last of them."""


@dataclass
class Strip:
    """A session's steps, drawn."""

    steps: list[Step] = field(default_factory=list)
    alike: list[Alike] = field(default_factory=list)
    """Those that come up more than once, the most frequent first."""

    @property
    def summary(self) -> str:
        """What is to be seen, in one sentence."""
        if not self.steps:
            return "No steps are kept of this session."
        again = sum(group.times for group in self.alike)
        said = f"{len(self.steps)} steps, {again} of them equal to another"
        said += f", in {len(self.alike)} kinds" if self.alike else ""
        failed, fired = sum(bool(s.row.error) for s in self.steps), sum(bool(s.row.rules) for s in self.steps)
        said += f"; {failed} failed" if failed else ""
        said += f"; a rule fired on {fired}" if fired else ""
        tail = rounds(tuple(step.letter for step in self.steps))
        return said + (f". It ends in {tail[1]} rounds of {' '.join(tail[0])}." if tail else ".")


def strip(rows: Iterable[StepRow]) -> Strip:
    """Draw steps, oldest first."""
    steps = [
        Step(n, row, letters(row.loop), (row.loop - 1) % COLOURS + 1 if row.loop else 0, _does(row))
        for n, row in enumerate(rows, 1)
    ]
    alike: dict[str, Alike] = {}
    for step in steps:
        if step.letter:
            group = alike.setdefault(step.letter, Alike(step.letter, step.colour, step.does))
            group.times += 1
            group.tokens += step.row.tokens
            group.cost_nano_usd += step.row.cost_nano_usd
            group.last = step.n
    repeated = sorted((g for g in alike.values() if g.times > 1), key=lambda g: -g.times)
    return Strip(steps, repeated)


def rounds(letter: Sequence[str]) -> tuple[tuple[str, ...], int] | None:
    """The shortest series of letters that the end repeats, and how often in a row; none: less than `FEW` times."""
    for size in range(1, len(letter) // FEW + 1):
        last = tuple(letter[-size:])
        if not all(last):
            return None
        times = 1
        while tuple(letter[len(letter) - size * (times + 1) : len(letter) - size * times]) == last:
            times += 1
        if times >= FEW:
            return last, times
    return None


def _does(row: StepRow) -> str:
    tools = ", ".join(row.tools)
    if row.kind == "tool":
        return tools or "tool"
    name = row.model or "model call"
    return f"{name} → {tools}" if tools else name
