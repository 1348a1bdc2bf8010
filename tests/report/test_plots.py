"""What is drawn: columns, the frontier, and the steps of sessions."""

from __future__ import annotations

import pytest

from spanfuse_processor.hosts.replay import SessionReport
from spanfuse_processor.hosts.replay.report import Found
from spanfuse_processor.hosts.tuning.distribution import distribution
from spanfuse_processor.report.plots import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Tried, columns, curve, nice
from spanfuse_processor.report.timelines import MAX_STEPS, Timelines
from spanfuse_processor.report.words import percent, plural
from tests.support.agents import prompt


@pytest.mark.parametrize(
    ("top", "ticks"), [(0, [0, 1]), (3, [0, 1, 2, 3]), (38, [0, 10, 20, 30, 40]), (0.4, [0, 0.1, 0.2, 0.3, 0.4])]
)
def test_axes_have_round_numbers(top: float, ticks: list[float]) -> None:
    assert nice(top) == pytest.approx(ticks)


def test_columns_are_parted_by_label_and_lie_within_the_picture() -> None:
    sizes = {f"s{n}": n for n in range(1, 60)}
    found = distribution(sizes, {"s1": "good", "s59": "runaway"})
    plot = columns(found["bins"], [(50, "limit 50", "limit"), (10**6, "far away", "")], "Sizes")
    assert [bar.said for bar in plot.bars].count("1 call: 1 good session") == 1
    assert plot.kinds == ["good", "runaway"]
    assert [mark.label for mark in plot.marks] == ["limit 50"], "what lies beyond the last column is not marked"
    for bar in plot.bars:
        assert LEFT <= bar.x <= bar.x + bar.width <= WIDTH - RIGHT
        assert TOP <= bar.y <= bar.y + bar.height <= HEIGHT - BOTTOM
    assert plot.summary == "Most sessions, 14, have 32 to 45 model calls; the longest has 46 or more."
    assert columns([], [], "Sizes").summary == "No session has a model call."


def test_the_frontier_is_drawn_as_stairs_with_the_chosen_point_and_its_intervals() -> None:
    tried = [
        Tried(5, 10, "tried", "worse"),
        Tried(0, 8, "best", "strict"),
        Tried(2, 10, "best", "lax"),
        Tried(5, 10, "now", "as configured"),
        Tried(0, 8, "then", "recommended", (0.49, 0.94), (0, 0.07)),
    ]
    plot = curve(tried, 10, 50, "Frontier")
    strict, lax = (dot for dot in plot.dots if dot.kind == "best")
    assert plot.line == f"{strict.x},{strict.y} {lax.x},{strict.y} {lax.x},{lax.y} {WIDTH - RIGHT},{lax.y}"
    (then,) = (dot for dot in plot.dots if dot.kind == "then")
    assert then.left < then.right <= WIDTH
    assert then.high < then.y < then.low <= HEIGHT - BOTTOM
    assert plot.summary == (
        "5 settings were tried. As configured: 10 of 10 runaways and 5 of 50 good sessions stopped. "
        "Recommended: 8 of 10 runaways and 0 of 50 good sessions stopped."
    )


def stopped(calls: int, at: int | None, session: str = "s") -> SessionReport:
    return SessionReport(session, calls=calls, blocked_at=at, rule="repeat.prompt" if at is not None else "")


def test_a_timeline_shows_the_steps_around_the_stop_and_no_more() -> None:
    lines = Timelines([stopped(1000, 500)], {"s": stopped(1000, 520)})
    lines.add(prompt("the same", session=name, at=n) for n in range(1000) for name in ("s", "other"))
    (line,) = lines.all()
    assert (len(line.rows), line.places[0], line.left_out) == (MAX_STEPS, 420, 1000 - MAX_STEPS)
    marks = {place: mark for (_, mark), place in zip(line.parts(), line.places, strict=True) if mark}
    assert marks == {500: "stop", 520: "was"}
    assert [line.refused(n) for n in (80, 81)] == [False, True]


def test_a_span_that_comes_twice_is_one_step() -> None:
    lines = Timelines([stopped(2, None)])
    calls = [prompt("a"), prompt("b")]
    lines.add([*calls, *calls])
    assert [len(line.rows) for line in lines.all()] == [2]


def test_a_span_is_known_within_its_session_only() -> None:
    lines = Timelines([stopped(1, None, "a"), stopped(1, None, "b")])
    lines.add(prompt("x", session=name, span_id="1" * 16) for name in "ab")
    assert [len(line.rows) for line in lines.all()] == [1, 1]


def test_what_gave_a_session_away_is_underlined_from_its_beginning() -> None:
    calls = [prompt("x"), *(prompt("again") for _ in range(5))]
    report = stopped(6, 4)
    evidence = {"first_span_id": calls[1].span_id, "last_span_id": calls[3].span_id}
    report.detections = [Found("repeat.prompt", "block", "block", 3, 0, False, "It repeats.", evidence)]
    lines = Timelines([report])
    lines.add(calls)
    (line,) = lines.all()
    assert line.loops() == [False, True, True, True, False, False]
    assert line.message == "It repeats."
    assert [step.letter for step, _ in line.parts()] == ["", "A", "A", "A", "A", "A"]


@pytest.mark.parametrize(
    ("part", "whole", "said"),
    [(0, 0, "0 %"), (0, 9, "0 %"), (1, 1000, "under 1 %"), (999, 1000, "99 %"), (5, 5, "100 %"), (1, 3, "33 %")],
)
def test_a_share_is_never_told_as_none_or_all_where_it_is_not(part: int, whole: int, said: str) -> None:
    assert percent(part, whole) == said


def test_words_agree_with_numbers() -> None:
    assert (plural(1, "call"), plural(2000, "call")) == ("1 call", "2,000 calls")
