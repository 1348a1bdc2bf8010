"""Periods of budgets by the calendar of a time zone: hours, days, weeks from Monday and months, daylight saving included."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, Literal, NamedTuple
from zoneinfo import ZoneInfo

PeriodName = Literal["total", "hourly", "daily", "weekly", "monthly"]

FOREVER_NS: Final = 2**63 - 1
"""End of `total`."""
_NANO: Final = 1_000_000_000
_MAX_S: Final = 253_402_300_799 - 32 * 24 * 3600
"""A month before the last second that `datetime` knows."""


class Period(NamedTuple):
    """A stretch of time, nanoseconds since the Unix epoch."""

    start_ns: int
    end_ns: int
    """The first moment after it."""

    def __contains__(self, at_ns: object) -> bool:
        return isinstance(at_ns, int) and self.start_ns <= at_ns < self.end_ns


TOTAL: Final = Period(0, FOREVER_NS)


def zone(name: str) -> tzinfo:
    """A time zone of the IANA database.

    Raises:
        ValueError: there is none of that name.
    """
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        raise ValueError(f"{name!r} is no time zone, such as Europe/Berlin") from error


def period_of(period: PeriodName, time_zone: str, at_ns: int) -> Period:
    """The period in which a moment lies.

    Args:
        period: its length.
        time_zone: name in the IANA database, whose clocks decide where it begins.
        at_ns: the moment, nanoseconds since the Unix epoch.

    Raises:
        ValueError: if the time zone is unknown.
    """
    if period == "total":
        return TOTAL
    hour = min(max(at_ns // _NANO, 0), _MAX_S) // 900  # clocks differ by quarters of an hour
    return _period(period, time_zone, hour * 900)


@lru_cache(maxsize=4096)
def _period(period: PeriodName, time_zone: str, at_s: int) -> Period:
    where = zone(time_zone)
    local = datetime.fromtimestamp(at_s, where)
    if period == "hourly":
        # By elapsed time from the hour's begin: when clocks are put back, an hour comes twice, and each is one of its own.
        start = at_s - local.minute * 60 - local.second
        return Period(start * _NANO, (start + 3600) * _NANO)
    day = local.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    if period == "daily":
        first, after = day, day + timedelta(days=1)
    elif period == "weekly":
        first = day - timedelta(days=day.weekday())
        after = first + timedelta(days=7)
    else:
        first = day.replace(day=1)
        after = (first + timedelta(days=32)).replace(day=1)
    return Period(_moment(first, where), _moment(after, where))


def _moment(local: datetime, where: tzinfo) -> int:
    """When a wall clock shows a time, nanoseconds since the Unix epoch; where midnight is skipped, the moment after the gap."""
    found = local.replace(tzinfo=where)
    offset = found.utcoffset()
    assert offset is not None
    seconds = int((found.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds() - offset.total_seconds())
    return seconds * _NANO
