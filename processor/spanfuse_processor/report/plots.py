"""Where the parts of a plot lie, in the units of its picture; the templates draw them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, log10
from typing import Any, Final

from spanfuse_processor.report.words import plural, spread

WIDTH: Final = 380
"""About a phone's, so that letters are as large there as written."""
HEIGHT: Final = 230
LEFT: Final = 40
RIGHT: Final = 10
TOP: Final = 34
BOTTOM: Final = 38
KINDS: Final = {"good": "good", "runaway": "bad", "either": "warn", "": "plain"}
"""Label → how its share of a bar is coloured; the empty one is without."""
_LETTER: Final = 6.2
"""About the width of a letter."""


@dataclass(frozen=True)
class Tick:
    """A number at an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class Bar:
    """A part of a column."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    """One of the values of `KINDS`."""
    said: str


@dataclass(frozen=True)
class Mark:
    """A value that is marked at the axis."""

    x: float
    y: float
    """Of its name."""
    label: str
    anchor: str
    kind: str = ""


@dataclass(frozen=True)
class Dot:
    """Settings."""

    x: float
    y: float
    kind: str
    """`tried`, `best` (on the frontier), `now` or `then`."""
    said: str
    low: float = 0
    """Where its vertical interval begins; 0: none is drawn."""
    high: float = 0
    left: float = 0
    right: float = 0


@dataclass
class Plot:
    """A picture of `WIDTH` by `HEIGHT`."""

    title: str
    summary: str
    """What is to be seen, for those who do not."""
    across: str
    """What the horizontal axis counts."""
    up: str
    """What the vertical axis counts."""
    xs: list[Tick] = field(default_factory=list)
    ys: list[Tick] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    line: str = ""
    """Points of the frontier."""
    kinds: list[str] = field(default_factory=list)
    """Labels that its bars tell apart."""


def nice(top: float, parts: int = 4) -> list[float]:
    """Round numbers from 0 to at least `top`, about `parts` steps."""
    if top <= 0:
        return [0, 1]
    raw = top / parts
    size = 10 ** floor(log10(raw))
    step = next(size * by for by in (1, 2, 5, 10) if size * by >= raw * 0.999)
    step = max(step, 1) if top >= 1 else step
    return [step * n for n in range(int(-(-top // step)) + 1)]


def columns(bins: Sequence[Mapping[str, Any]], marks: Sequence[tuple[float, str, str]], title: str) -> Plot:
    """Calls per session as columns.

    Args:
        bins: as `distribution` has them.
        marks: values that are marked, with a name and a kind.
    """
    kinds = [kind for kind in KINDS if kind and any(one.get(kind) for one in bins)]
    plot = Plot(title, "", "model calls per session", "sessions", kinds=kinds)
    ticks = nice(max((one["sessions"] for one in bins), default=0))
    width = (WIDTH - LEFT - RIGHT) / max(1, len(bins))
    plot.ys = [Tick(_up(value, ticks[-1]), f"{value:,.0f}") for value in ticks]
    every = -(-len(bins) // 9)
    for place, one in enumerate(bins):
        x = LEFT + place * width
        if place % every == 0:
            plot.xs.append(Tick(x + width / 2, f"{one['from']:,}"))
        plot.bars += _column(one, kinds, x, width, ticks[-1])
    plot.marks = list(_marks(bins, marks, width))
    plot.summary = _columns_said(bins)
    return plot


def _columns_said(bins: Sequence[Mapping[str, Any]]) -> str:
    if not bins:
        return "No session has a model call."
    most = max(bins, key=lambda one: one["sessions"])
    calls = f"{most['from']}" if most["from"] == most["to"] else f"{most['from']} to {most['to']}"
    return (
        f"Most sessions, {most['sessions']:,}, have {calls} model calls; the longest has {bins[-1]['from']:,} or more."
    )


def _column(one: Mapping[str, Any], kinds: Sequence[str], x: float, width: float, top: float) -> Iterator[Bar]:
    parts = {kind: int(one.get(kind, 0)) for kind in kinds}
    parts[""] = one["sessions"] - sum(parts.values())
    calls = "1 call" if one["to"] == 1 else f"{spread(one)} calls"
    below = 0
    for kind, count in parts.items():
        if count:
            y = _up(below + count, top)
            said = f"{calls}: {plural(count, f'{kind} session'.lstrip())}"
            yield Bar(x + 1, y, max(1.0, width - 2), _up(below, top) - y, KINDS[kind], said)
        below += count


def _marks(bins: Sequence[Mapping[str, Any]], marks: Sequence[tuple[float, str, str]], width: float) -> Iterator[Mark]:
    """Marks, whose names take turns in two rows so that neighbours can be read."""
    for number, (value, name, kind) in enumerate(sorted(marks)):
        place = next((n for n, one in enumerate(bins) if value <= one["to"]), None)
        if place is None:
            continue
        one = bins[place]
        share = (value - one["from"] + 1) / (one["to"] - one["from"] + 1)
        x = LEFT + (place + min(1.0, max(0.0, share))) * width
        anchor = "end" if x + len(name) * _LETTER > WIDTH else "start"
        yield Mark(round(x, 1), 11 + number % 2 * 12, name, anchor, kind)


def _up(value: float, top: float, base: float = 0) -> float:
    return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - base) / ((top - base) or 1), 1)


def _across(value: float, top: float) -> float:
    return round(LEFT + 8 + (WIDTH - LEFT - RIGHT - 16) * value / (top or 1), 1)


@dataclass(frozen=True)
class Tried:
    """Settings, as a point of the frontier's plot."""

    wrong: int
    """Wrong stops."""
    stopped: int
    """Runaways stopped."""
    kind: str
    """As `Dot.kind`."""
    said: str
    stopped_between: tuple[float, float] = (0, 0)
    """Interval of the share of runaways stopped."""
    wrong_between: tuple[float, float] = (0, 0)
    """Interval of the share of good sessions stopped."""


def curve(tried: Sequence[Tried], runaways: int, good: int, title: str) -> Plot:
    """Runaways stopped against good sessions stopped, both in percent.

    Args:
        tried: all settings; those of the frontier in order of wrong stops.
    """
    plot = Plot(title, "", "good sessions stopped, %", "runaways stopped, %")
    shares = [100 * one.wrong / good for one in tried if one.kind != "tried"]
    ends = [100 * one.wrong_between[1] for one in tried if one.kind == "then"]
    xs = nice(min(100.0, max([5.0, *shares, *ends])), 5)
    least = min((100 * one.stopped / runaways for one in tried if one.kind != "tried"), default=0)
    lows = [100 * one.stopped_between[0] for one in tried if one.kind == "then"]
    base = max(0.0, floor((min([least, *lows]) - 5) / 10) * 10)
    plot.xs = [Tick(_across(value, xs[-1]), f"{value:g}") for value in xs]
    step = next(step for span, step in ((10, 2), (30, 5), (60, 10), (100, 20)) if 100 - base <= span)
    plot.ys = [Tick(_up(value, 100, base), f"{value:g}") for value in range(100, int(base) - 1, -step)]
    seen = set[tuple[int, int, str]]()
    for one in tried:
        x, y = 100 * one.wrong / good, 100 * one.stopped / runaways
        key = (one.wrong, one.stopped, one.kind)
        if x <= xs[-1] and y >= base and key not in seen:
            seen.add(key)
            plot.dots.append(_dot(one, _across(x, xs[-1]), _up(y, 100, base), xs[-1], base))
    plot.line = _steps([dot for dot in plot.dots if dot.kind == "best"])
    plot.summary = _curve_said(tried, runaways, good)
    return plot


def _dot(one: Tried, x: float, y: float, top: float, base: float) -> Dot:
    if one.kind != "then":
        return Dot(x, y, one.kind, one.said)
    low, high = (_up(100 * share, 100, base) for share in one.stopped_between)
    left, right = (_across(min(top, 100 * share), top) for share in one.wrong_between)
    return Dot(x, y, one.kind, one.said, low, high, left, right)


def _steps(dots: Sequence[Dot]) -> str:
    """The frontier as stairs, to the right edge: between two points nothing better was found than the left one."""
    points: list[str] = []
    for before, dot in zip([None, *dots], dots, strict=False):
        points += [f"{dot.x},{before.y}"] if before is not None else []
        points.append(f"{dot.x},{dot.y}")
    return " ".join([*points, f"{WIDTH - RIGHT},{dots[-1].y}"]) if dots else ""


def _curve_said(tried: Sequence[Tried], runaways: int, good: int) -> str:
    found = {one.kind: one for one in tried if one.kind in ("now", "then")}
    told = [
        f"{name}: {one.stopped} of {runaways} runaways and {one.wrong} of {good} good sessions stopped"
        for kind, name in (("now", "As configured"), ("then", "Recommended"))
        if (one := found.get(kind)) is not None
    ]
    return f"{len(tried)} settings were tried. {'. '.join(told)}."
