"""The figures of a study: scores, intervals, how long sessions are."""

from __future__ import annotations

import pytest

from spanfuse_processor.hosts.tuning.distribution import STARTS, distribution
from spanfuse_processor.hosts.tuning.labels import Label
from spanfuse_processor.hosts.tuning.score import Stop, score
from spanfuse_processor.hosts.tuning.wilson import chance, interval, needed


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [(0, 0, 0, 1), (0, 10, 0, 0.2775), (10, 10, 0.7225, 1), (5, 10, 0.2366, 0.7634), (0, 61, 0, 0.0592)],
)
def test_wilsons_interval(hits: int, of: int, low: float, high: float) -> None:
    """As tables have it (Newcombe 1998, method 3)."""
    assert list(interval(hits, of)) == pytest.approx([low, high], abs=5e-5)


@pytest.mark.parametrize(("share", "number"), [(0.05, 73), (0.01, 381)])
def test_how_many_it_takes_to_rule_a_share_out(share: float, number: int) -> None:
    assert needed(share) == number
    assert interval(0, number)[1] <= share < interval(0, number - 1)[1]


@pytest.mark.parametrize(
    ("better", "worse", "likely"), [(0, 0, 1), (1, 0, 1), (5, 0, 0.0625), (6, 0, 0.03125), (3, 3, 1)]
)
def test_few_changes_may_be_chance(better: int, worse: int, likely: float) -> None:
    assert chance(better, worse) == likely


def stop(
    calls: int, at: int | None = None, saved: int = 0, seconds: float | None = None, spent: int | None = None
) -> Stop:
    return Stop(calls, at, saved, seconds, spent)


def test_a_score_tells_right_stops_from_wrong_ones_and_counts_what_was_wasted() -> None:
    runaway = Label(session="r", label="runaway", onset=4, block_at=6)
    found = score(
        [
            (runaway, stop(20, 8, 120, 30.0, 55)),  # two too late
            (runaway, stop(20)),  # never: 14 wasted
            (runaway, stop(20, 3)),  # before it began
            (Label(session="u", label="runaway"), stop(10, 2, 8, 10.0)),  # where it begins is not known
            (Label(session="g", label="good"), stop(9, 5)),
            (Label(session="h", label="good"), stop(9)),
            (Label(session="e", label="either"), stop(9, 1)),
        ]
    )
    assert (found.runaways, found.stopped, found.early) == (4, 2, 1)
    assert (found.good, found.good_stopped, found.lost_calls) == (2, 1, 4)
    assert (found.either, found.either_stopped) == (1, 1)
    assert (found.wasted_calls, found.wasted_unguarded) == (2 + 14 + 2, 3 * 14 + 10)
    assert (found.saved_calls, found.saved_nano_usd) == (12 + 8, 128)
    assert (found.calls_to_stop_p50, found.seconds_p50, found.seconds_p95) == (2, 10.0, 30.0)
    assert (found.nano_usd_p50, found.nano_usd_p95) == (55, 55)
    assert found.wrong == 2, "an early stop is a wrong one"


def test_what_is_allowed_is_a_share_of_the_good_sessions() -> None:
    good = [(Label(session=f"{n}", label="good"), stop(5, 2 if n < 3 else None)) for n in range(100)]
    found = score(good)
    assert [found.excess(percent) for percent in (0, 2, 2.99, 3)] == [3, 1, 1, 0]


def test_sessions_are_binned_by_their_calls_and_told_apart_by_their_label() -> None:
    found = distribution({"a": 1, "b": 1, "c": 5, "d": 0, "e": 7}, {"a": "good", "e": "runaway"})
    assert STARTS[:8] == (1, 2, 3, 4, 6, 8, 12, 16)
    assert found["bins"] == [
        {"from": 1, "to": 1, "sessions": 2, "good": 1},
        {"from": 2, "to": 2, "sessions": 0},
        {"from": 3, "to": 3, "sessions": 0},
        {"from": 4, "to": 5, "sessions": 1},
        {"from": 6, "to": 7, "sessions": 1, "runaway": 1},
    ]
    assert found["percentiles"] == {"50": 1, "75": 5, "90": 7, "95": 7, "99": 7, "100": 7}


def test_of_no_session_there_is_nothing_to_tell() -> None:
    assert distribution({}, {}) == {"percentiles": dict.fromkeys(("50", "75", "90", "95", "99", "100")), "bins": []}
    assert score([]).to_dict()["good_stopped_interval"] == [0.0, 1.0]
