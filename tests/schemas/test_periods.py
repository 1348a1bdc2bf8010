"""Periods of budgets by the calendar."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanfuse_schemas.periods import FOREVER_NS, Period, PeriodName, period_of

ZONES = ("UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia")
NAMES: tuple[PeriodName, ...] = ("hourly", "daily", "weekly", "monthly")


def at(text: str, zone: str = "Europe/Berlin") -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * 10**9


@pytest.mark.parametrize(
    ("name", "begins", "ends"),
    [
        ("hourly", "2026-03-29T12:00", "2026-03-29T13:00"),
        ("daily", "2026-03-29T00:00", "2026-03-30T00:00"),
        ("weekly", "2026-03-23T00:00", "2026-03-30T00:00"),
        ("monthly", "2026-03-01T00:00", "2026-04-01T00:00"),
    ],
)
def test_periods_begin_and_end_by_the_clocks_of_their_zone(name: PeriodName, begins: str, ends: str) -> None:
    assert period_of(name, "Europe/Berlin", at("2026-03-29T12:34")) == Period(at(begins), at(ends))


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)])
def test_a_day_has_as_many_hours_as_its_clocks_show(day: str, hours: int) -> None:
    found = period_of("daily", "Europe/Berlin", at(f"{day}T12:00"))
    assert (found.end_ns - found.start_ns) / 3.6e12 == hours


def test_a_day_without_a_midnight_begins_when_it_begins() -> None:
    zone = "America/Sao_Paulo"
    found = period_of("daily", zone, at("2018-11-04T12:00", zone))
    assert found == Period(at("2018-11-04T01:00", zone), at("2018-11-05T00:00", zone))


def test_r063_a_new_day_of_the_zone_is_a_new_day() -> None:
    zone = "Asia/Singapore"
    evening, midnight = at("2026-05-04T21:30", zone), at("2026-05-05T00:00:01", zone)
    assert period_of("daily", zone, evening).end_ns == at("2026-05-05T00:00", zone)
    assert midnight not in period_of("daily", zone, evening)


def test_a_total_never_ends() -> None:
    assert period_of("total", "UTC", 5).end_ns == FOREVER_NS


def test_an_unknown_zone_is_an_error() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        period_of("daily", "Europe/Atlantis", 0)


@given(st.sampled_from(NAMES), st.sampled_from(ZONES), st.integers(0, 4 * 10**18))
def test_periods_cover_all_time_without_a_gap(name: PeriodName, zone: str, moment: int) -> None:
    found = period_of(name, zone, moment)
    assert moment in found
    assert period_of(name, zone, found.start_ns) == found
    after = period_of(name, zone, found.end_ns)
    assert after.start_ns == found.end_ns
    assert timedelta(0) < timedelta(microseconds=(found.end_ns - found.start_ns) // 1000) <= timedelta(days=31, hours=1)
