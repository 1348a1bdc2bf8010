"""The book of alerts: what people are told, and when."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanfuse_processor.errors import QueryError
from spanfuse_processor.exporters.alerts import book as book_module
from spanfuse_processor.exporters.alerts.book import Book
from spanfuse_processor.exporters.alerts.held import Timing
from spanfuse_processor.exporters.alerts.model import AlertQuery, Notice
from spanfuse_processor.exporters.alerts.signal import Over, Signal

S = 10**9
START = 1_700_000_000 * S
TIMING = Timing(3600 * S, 900 * S, S // 2)
SESSION, USER = "session:run-1", "user:ada"


def signal(key: str = SESSION, rule: str = "cycle", **more: Any) -> Signal:
    fields: dict[str, Any] = {"severity": "warning", "title": "t", "message": "m", "at_ns": START}
    return Signal(rule=rule, key=key, **fields | more)


class Told:
    """A book, and all that it ever told."""

    def __init__(self, book: Book | None = None) -> None:
        self.book = book or Book(TIMING)
        self.now = START
        self.notices: list[Notice] = []

    def takes(self, *signals: Signal | Over) -> Told:
        for one in signals:
            self.book.over(one, self.now) if isinstance(one, Over) else self.book.take(one, self.now)
        return self

    def after(self, seconds: float = 1) -> list[str]:
        """What is told meanwhile, looked at as often as the service does."""
        until, told = self.now + int(seconds * S), len(self.notices)
        while self.now < until:
            self.now = min(until, max(self.now + S, self.book.next_ns() or until))
            for notice in self.book.tick(self.now):
                self.notices.append(notice)
                if notice.what == "firing":
                    self.book.sent_to(notice.alert.id, ("log",))
        return [notice.what for notice in self.notices[told:]]


def test_r125_what_goes_on_is_told_once_in_its_window_and_counted() -> None:
    """Fifty more of the same within an hour are no further message."""
    told = Told()
    for _ in range(51):
        told.takes(signal()).after(30)
    assert [notice.what for notice in told.notices] == ["firing"]
    assert told.book.firing()[0].count == 51


def test_what_is_not_seen_any_more_is_over_and_that_is_told_once() -> None:
    """After a quarter of an hour of quiet."""
    told = Told().takes(signal())
    assert told.after(2) == ["firing"]
    assert told.after(890) == []
    assert told.after(20) == ["resolved"]
    assert told.after(10_000) == []


def test_r126_other_keys_and_later_windows_have_alerts_of_their_own() -> None:
    """User a, user b, and a again the next day: three."""
    told = Told().takes(signal("user:a"))
    told.after()
    told.takes(signal("user:b"))
    told.after(86_400)
    told.takes(signal("user:a"))
    told.after()
    assert [n.alert.key for n in told.notices if n.what == "firing"] == ["user:a", "user:b", "user:a"]
    assert len({n.alert.id for n in told.notices if n.what == "firing"}) == 3


def test_r127_a_budget_is_told_at_each_level_once_within_its_period() -> None:
    """50, 80, 95 and 100 %: four messages of one alert, the last at the end of the period is that it is over."""
    told, end = Told(), START + 7200 * S
    for level in (0.5, 0.5, 0.8, 0.5, 0.95, 0.95, 1.0, 1.0):
        told.takes(signal(USER, "budget.user/daily", level=level, window_end_ns=end)).after(5)
    assert [notice.what for notice in told.notices] == ["firing"] * 4
    assert len({notice.alert.id for notice in told.notices}) == 1
    assert told.after(7000) == []
    assert told.after(300) == ["resolved"]


def test_what_holds_a_key_back_is_over_when_that_is_and_not_before() -> None:
    """A breaker that stays open for a day is told once."""
    told = Told().takes(signal(holds=True, action="block"))
    assert told.after(86_400) == ["firing"]
    told.takes(Over(SESSION, told.now))
    assert told.after() == ["resolved"]


def test_a_block_that_lapses_is_over_at_its_end_without_news() -> None:
    """The period of its budget is over."""
    told = Told().takes(signal(USER, holds=True, lapses=True, expires_at_ns=START + 100 * S))
    assert told.after(90) == ["firing"]
    assert told.after(20) == ["resolved"]


def test_a_decision_and_its_detection_are_one_message_with_what_both_say() -> None:
    """They come apart, one after the other."""
    told = Told().takes(
        signal(holds=True, action="block", mode="enforce", level=1), signal(agent="a", user="u", team="t", level=1)
    )
    assert told.after() == ["firing"]
    alert = told.notices[0].alert
    assert (alert.agent, alert.user, alert.team, alert.mode, alert.action) == ("a", "u", "t", "enforce", "block")


def test_what_is_over_before_it_was_told_is_not_told() -> None:
    """A breaker that opens and closes within half a second is nobody's business."""
    assert Told().takes(signal(holds=True), Over(SESSION, START)).after(60) == []


def test_what_comes_back_within_its_window_is_told_when_the_window_ends() -> None:
    """A breaker that opens after each probe is one alert an hour, not one a minute."""
    told = Told()
    for _ in range(20):
        told.takes(signal(holds=True)).after(60)
        told.takes(Over(SESSION, told.now)).after(60)
    told.takes(signal(holds=True))
    assert [notice.what for notice in told.notices] == ["firing", "resolved"]
    assert told.after(1300) == ["firing"]


def test_r126_who_resets_a_key_arms_it_again_at_once() -> None:
    """The operator wants to know whether it comes back."""
    told = Told().takes(signal(holds=True))
    told.after()
    told.takes(Over(SESSION, told.now, rearm=True)).after()
    told.takes(signal(holds=True)).after()
    assert [notice.what for notice in told.notices] == ["firing", "resolved", "firing"]


def test_nobody_is_reminded_of_what_somebody_has_taken_on() -> None:
    """It goes on for hours, and is told when it becomes worse, or is over."""
    told = Told().takes(signal())
    told.after()
    acked = told.book.ack(told.notices[0].alert.id, "ada")
    assert acked is not None
    assert acked.acknowledged_by == "ada"
    for _ in range(20):
        told.takes(signal()).after(600)
    assert [notice.what for notice in told.notices] == ["firing"]
    assert told.takes(signal(level=5)).after() == ["firing"]
    assert told.after(1000) == ["resolved"]


def test_what_is_snoozed_is_told_when_that_ends_if_it_still_fires() -> None:
    """Not before, and not if it is over by then."""
    told = Told().takes(signal(holds=True), signal("session:other", holds=True))
    ids = [alert.id for alert in told.book.firing()]
    for id in ids:
        told.book.snooze(id, START + 600 * S, told.now)
    assert told.after(300) == []
    told.takes(Over("session:other", told.now))
    assert told.after(299) == []
    assert told.after(10) == ["firing"]
    assert told.notices[0].alert.key == SESSION


def test_a_snooze_of_the_past_ends_it_and_an_unknown_alert_is_none() -> None:
    """As the API says."""
    told = Told().takes(signal(holds=True))
    id = told.book.firing()[0].id
    told.book.snooze(id, START + 600 * S, told.now)
    found = told.book.snooze(id, 0, told.now)
    assert found is not None
    assert found.snoozed_until_ns is None
    assert told.after() == ["firing"]
    assert told.book.snooze("nobody", 0, told.now) is None
    assert told.book.ack("nobody", "ada") is None


def test_a_restart_tells_nobody_twice_and_forgets_nothing() -> None:
    """All that the book knows is in its rows."""
    first = Told().takes(signal(holds=True), signal(USER, "budget.x", level=0.5, window_end_ns=START + 7200 * S))
    first.after()
    first.takes(signal("session:b"))
    rows = [row for row in first.book.changes().values() if row is not None]
    second = Told(Book(TIMING, rows))
    second.now = first.now
    second.takes(signal(), signal(USER, "budget.x", level=0.5, window_end_ns=START + 7200 * S))
    assert second.after() == ["firing"]
    assert second.notices[0].alert.key == "session:b"
    assert second.takes(Over(SESSION, second.now)).after() == ["resolved"]
    assert len(Book(TIMING, [b"{}", b"rubbish", *rows])) == 3


def test_the_book_is_bounded_and_lets_go_of_what_is_over_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand sessions that are stopped at once do not fill the memory."""
    monkeypatch.setattr(book_module, "MAX_ALERTS", 10)
    told = Told().takes(signal("session:old", holds=True))
    told.after()
    told.takes(Over("session:old", told.now)).after()
    told.takes(*(signal(f"session:{n}", holds=True, at_ns=START + n) for n in range(10)))
    assert (len(told.book), told.book.forgotten) == (10, 0)
    told.takes(signal("session:more", holds=True, at_ns=START + 99))
    assert (len(told.book), told.book.forgotten) == (10, 1)
    assert None in told.book.changes().values()


def test_pages_are_complete_and_apart() -> None:
    """Newest first, narrowed by each field."""
    told = Told().takes(
        *(signal(f"session:{n}", at_ns=START + n, severity="critical" if n % 2 else "info") for n in range(25))
    )
    keys, cursor = [], ""
    while True:
        page = told.book.page(AlertQuery(limit=10, cursor=cursor))
        keys += [alert.key for alert in page.alerts]
        if not (cursor := page.next):
            break
    assert keys == [f"session:{n}" for n in reversed(range(25))]
    assert len(told.book.page(AlertQuery(severity="critical")).alerts) == 12
    assert len(told.book.page(AlertQuery(key="session:7", state="firing", rule="cycle")).alerts) == 1
    with pytest.raises(QueryError):
        told.book.page(AlertQuery(cursor="elsewhere"))


steps = st.lists(
    st.tuples(
        st.sampled_from(["take", "hold", "over", "reset", "ack", "snooze", "wait"]),
        st.sampled_from(["session:a", "user:b"]),
        st.integers(0, 3),
        st.integers(1, 2500),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(steps)
def test_whatever_happens_an_alert_is_told_once_for_each_window_and_level_and_every_end_is_told(
    plan: list[Any],
) -> None:
    """Firing messages of a key and level are a window apart, unless an operator re-armed it; they and the ends take turns."""
    told, rearmed = Told(), dict[str, int]()
    last: dict[tuple[str, float], int] = {}
    for what, key, level, seconds in plan:
        now = told.now
        match what:
            case "take":
                told.takes(signal(key, level=level))
            case "hold":
                told.takes(signal(key, level=level, holds=True))
            case "over" | "reset":
                told.takes(Over(key, now, rearm=what == "reset"))
                rearmed |= {key: now} if what == "reset" else {}
            case "ack":
                for alert in told.book.firing():
                    told.book.ack(alert.id, "ada")
            case "snooze":
                for alert in told.book.firing():
                    told.book.snooze(alert.id, now + seconds * S, now)
        before = len(told.notices)
        told.after(seconds if what == "wait" else 1)
        for notice in told.notices[before:]:
            held = told.book._held["cycle", notice.alert.key]
            if notice.what == "firing":
                place = (notice.alert.key, held.told)
                since = told.now - last.get(place, -(10**19))
                assert since >= TIMING.window_ns - 3 * S or rearmed.get(notice.alert.key, 0) >= last[place] - 3 * S, (
                    what,
                    plan,
                )
                last[place] = now
    told.takes(Over("session:a", told.now), Over("user:b", told.now))
    told.after(20_000)
    assert not told.book.firing()
    for key in ("session:a", "user:b"):
        whats = [notice.what for notice in told.notices if notice.alert.key == key]
        assert not whats or whats[-1] == "resolved"
        assert all(a == "firing" or b == "firing" for a, b in pairwise(whats))
