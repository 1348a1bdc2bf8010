"""The table of instruments is complete, and tells nothing apart by what has no end."""

from __future__ import annotations

import re

import pytest

from spanfuse_processor.telemetry import COUNTERS, FAMILIES
from spanfuse_processor.telemetry.catalogue import ATTRIBUTES, BY_NAME, CATALOGUE, FORBIDDEN, OPEN, Instrument

each = pytest.mark.parametrize("instrument", CATALOGUE, ids=lambda instrument: instrument.name)


@each
def test_an_instrument_says_what_it_is(instrument: Instrument) -> None:
    assert re.fullmatch(r"spanfuse(\.[a-z][a-z_]*)+", instrument.name)
    assert len(instrument.about) > 10
    assert instrument.unit
    assert instrument.hosts
    assert bool(instrument.bounds) == (instrument.kind == "histogram")
    assert list(instrument.bounds) == sorted(set(instrument.bounds))


@each
def test_attributes_are_known_and_bounded_and_never_a_session_a_user_or_a_trace(instrument: Instrument) -> None:
    assert set(instrument.attributes) <= set(ATTRIBUTES)
    assert not set(instrument.attributes) & FORBIDDEN
    assert not instrument.values or len(instrument.attributes) == 1


def test_names_are_unique_to_opentelemetry_and_to_prometheus() -> None:
    assert len(BY_NAME) == len(CATALOGUE) == len({instrument.prometheus for instrument in CATALOGUE})


def test_every_attribute_is_used() -> None:
    assert {name for instrument in CATALOGUE for name in instrument.attributes} == set(ATTRIBUTES)
    assert set(ATTRIBUTES) >= OPEN


def test_all_that_is_counted_is_measured() -> None:
    names = {instrument.name for instrument in CATALOGUE}
    assert {f"spanfuse.{name}" for name in (*COUNTERS, *FAMILIES)} <= names


@pytest.mark.parametrize(
    ("name", "prometheus"),
    [
        ("spanfuse.calls", "spanfuse_calls_total"),
        ("spanfuse.cost.usd", "spanfuse_cost_usd_total"),
        ("spanfuse.end_to_end_delay", "spanfuse_end_to_end_delay_seconds"),
        ("spanfuse.batch.calls", "spanfuse_batch_calls"),
        ("spanfuse.state.bytes", "spanfuse_state_bytes"),
        ("spanfuse.coverage.ratio", "spanfuse_coverage_ratio"),
        ("spanfuse.uptime", "spanfuse_uptime_seconds"),
        ("spanfuse.info", "spanfuse_info"),
    ],
)
def test_prometheus_calls_them_as_the_specification_translates(name: str, prometheus: str) -> None:
    """https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/: dots become underscores, units are
    written out and appended where the name does not end with them, counters end with `_total`."""
    assert BY_NAME[name].prometheus == prometheus
