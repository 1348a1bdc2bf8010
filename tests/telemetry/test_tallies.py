"""What is added up: bounded, and each series only grows."""

from __future__ import annotations

import random

import pytest

from spanfuse_processor.telemetry.catalogue import CALLS, DELAY, MAX_SETS, STEP, TOKENS
from spanfuse_processor.telemetry.labels import MAX_CHARS, label
from spanfuse_processor.telemetry.tallies import Buckets, Tallies, Tally


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("checkout", "checkout"),
        ("", "none"),
        ("Ünïcode 🙂", "Ünïcode 🙂"),
        ("two\nlines\r\x1b[31m", "two\ufffdlines\ufffd\ufffd[31m"),
        ("half a \ud83d pair", "half a \ufffd pair"),
        ("x" * 10_000, "x" * MAX_CHARS + "…"),
        ('"quoted\\"', '"quoted\\"'),
    ],
    ids=["plain", "empty", "emoji", "control", "surrogate", "long", "quotes"],
)
def test_a_name_is_shown_on_one_line_of_bounded_length_that_every_backend_takes(name: str, shown: str) -> None:
    assert label(name) == shown == label(shown)
    assert label(name).encode()


def test_what_comes_beyond_the_bound_is_added_up_under_other_by_what_has_few_values() -> None:
    tally = Tally(CALLS)
    for n in range(MAX_SETS + 50):
        tally.add(("llm", f"agent-{n}", "", "m"))
    tally.add(("tool", "late", "", ""), 3)
    assert len(tally.values) == MAX_SETS + 2
    assert tally.values["llm", "agent-0", "none", "m"] == 1
    assert tally.values["llm", "other", "other", "other"] == 50
    assert tally.values["tool", "other", "other", "other"] == 3
    assert sum(tally.values.values()) == MAX_SETS + 53


def test_no_series_ever_shrinks_or_vanishes_whatever_comes() -> None:
    """Prometheus takes a counter that shrinks for one that began anew."""
    tally, chance = Tally(TOKENS), random.Random(5)
    before: dict[tuple[str, ...], float] = {}
    for _ in range(200):
        for _ in range(20):
            tally.add(("input", f"agent-{int(chance.expovariate(0.01))}", "m"), chance.randrange(5))
        now = dict(tally.values)
        assert before.items() <= {at: min(n, before.get(at, n)) for at, n in now.items()}.items()
        before = now


def test_names_that_are_cut_to_the_same_are_counted_together() -> None:
    tally = Tally(TOKENS)
    for end in ("a", "b"):
        tally.add(("input", "x" * 200 + end, "m"), 2)
    assert list(tally.values.values()) == [4]


def test_a_value_is_in_the_bucket_whose_bound_it_does_not_exceed() -> None:
    buckets = Buckets(DELAY)
    buckets.record(("counted",), [0.05, 0.0500001, 900.0, 901.0])
    buckets.record(("published",), [])
    series = buckets.series()
    assert series["counted",].counts == (1, 1, *[0] * (len(DELAY.bounds) - 3), 1, 1)
    assert series["counted",].total == pytest.approx(1801.1000001)
    assert sum(series["published",].counts) == 0


def test_what_is_handed_out_does_not_change_any_more() -> None:
    tallies = Tallies()
    tallies.counter(CALLS).add(("llm", "a", "", "m"))
    tallies.histogram(STEP).record(("detect",), [1])
    counted, measured = tallies.counted(), tallies.measured()
    tallies.counter(CALLS).add(("llm", "a", "", "m"))
    tallies.histogram(STEP).record(("detect",), [1])
    assert counted["spanfuse.calls"] == {("llm", "a", "none", "m"): 1}
    assert sum(measured["spanfuse.step.duration"]["detect",].counts) == 1
