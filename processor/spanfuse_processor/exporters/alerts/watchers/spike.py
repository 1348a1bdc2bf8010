"""`spend.spike`: the last hour cost many times the mean hour of the last seven days; with the session that cost most."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from spanfuse_processor.config.alerts import Spike as Settings
from spanfuse_processor.exporters.alerts.signal import Signal
from spanfuse_processor.exporters.alerts.text import dollars
from spanfuse_processor.exporters.readmodel.model import MinuteRow, SessionRow
from spanfuse_schemas import Evidence

RULE: Final = "spend.spike"
HOURS: Final = 7 * 24
MAX_SCOPES: Final = 400
"""Scopes remembered, those at work last; with 168 hours each some 1 MB."""


class Spiked(NamedTuple):
    """A scope that spends many times of what it usually does."""

    key: str
    hour: int
    """Spent in the last hour, nano-dollars."""
    mean: int
    """Mean hour before, nano-dollars."""
    hours: int
    """Hours in that mean."""


class Spikes:
    """What was spent each hour."""

    def __init__(self) -> None:
        self._hours: dict[str, dict[int, int]] = {}
        """Key → hour since the Unix epoch → nano-dollars; the first hour is there though nothing was spent in it."""

    def knows(self, key: str) -> bool:
        """Whether anything was noted of it."""
        return key in self._hours

    def look(self, key: str, minutes: Iterable[MinuteRow], settings: Settings) -> Spiked | None:
        """Take in the last minutes, and compare.

        Args:
            minutes: oldest first, whole hours of them at least two; the running one last.
        """
        rows = list(minutes)
        if len(rows) < 120:
            return None
        now, hour = rows[-1].minute, sum(row.cost_nano_usd for row in rows[-60:])
        hours = self._noted(key, rows)
        last = (now - 59) // 60 - 1  # the last hour that ended before the last 60 minutes began
        begin = max(min(hours), last - HOURS + 1)
        known = last - begin + 1
        if known < settings.min_hours:
            return None
        mean = sum(cost for at, cost in hours.items() if begin <= at <= last) // known
        if hour < settings.floor_usd * 1e9 or hour < settings.factor * mean:
            return None
        return Spiked(key, hour, mean, known)

    def _noted(self, key: str, rows: list[MinuteRow]) -> dict[int, int]:
        hours = self._hours.pop(key, {})
        self._hours[key] = hours
        if len(self._hours) > MAX_SCOPES:
            del self._hours[next(iter(self._hours))]
        whole = -(-rows[0].minute // 60)  # the first hour of which all minutes are here
        sums: dict[int, int] = {}
        begun = bool(hours)
        for row in rows:
            begun = begun or row.calls > 0
            if begun and row.minute // 60 >= whole:
                sums[row.minute // 60] = sums.get(row.minute // 60, 0) + row.cost_nano_usd
        hours |= sums or ({} if hours else {rows[-1].minute // 60: 0})
        for old in [at for at in hours if at < rows[-1].minute // 60 - HOURS - 2]:
            del hours[old]
        return hours

    def snapshot(self) -> Any:
        """As JSON."""
        return {
            key: [[at, cost] for at, cost in hours.items() if cost or at == min(hours)]
            for key, hours in self._hours.items()
        }

    def restore(self, found: Any) -> None:
        """The inverse."""
        self._hours = {key: dict(map(tuple, hours)) for key, hours in found.items()}


def signal(spiked: Spiked, top: SessionRow | None, settings: Settings, now_ns: int) -> Signal:
    """What is told of it; again once it has doubled."""
    kind, _, name = spiked.key.partition(":")
    who = "All together" if kind == "global" else f"{kind.capitalize()} {name}"
    times = spiked.hour / spiked.mean if spiked.mean else math.inf
    usual = f"{times:.1f} times the mean hour of the last {_days(spiked.hours)} ({dollars(spiked.mean)})"
    whose: dict[str, Any] = {kind: name} if kind in ("agent", "team") else {}
    return Signal(
        rule=RULE, key=spiked.key, severity="critical" if times >= 3 * settings.factor else "warning", at_ns=now_ns,
        title=f"{who}: {dollars(spiked.hour)} within an hour",
        message=f"{who} spent {dollars(spiked.hour)} within an hour, {usual}.{_most(top)}",
        level=int(math.log2(max(1.0, min(times, 1e9) / settings.factor))), cost_nano_usd=spiked.hour,
        session=top.session if top is not None else "", **whose,
        evidence=Evidence(
            threshold=round(settings.factor * spiked.mean / 1e9, 6), value=round(spiked.hour / 1e9, 6), unit="USD/h",
            since_ns=now_ns - 3600 * 10**9, cost_nano_usd=spiked.hour,
        ),
    )  # fmt: skip


def _most(top: SessionRow | None) -> str:
    if top is None:
        return ""
    of = f" of agent `{top.agent}`" if top.agent else ""
    return f" The session that cost most of those at work is `{top.session}`{of} with {dollars(top.cost_nano_usd)}."


def _days(hours: int) -> str:
    return f"{hours} hours" if hours < 48 else f"{hours // 24} days"
