"""Which alerts there are, and when people are told: once in a window, again when it becomes worse, and when it is over.

A pure state machine: time comes as an argument, what is to be told comes out of `tick`.

Per rule and key: a signal opens a window (`window_s`, or the period of a budget). Within it the alert is told when it begins
and when its level rises; whatever else comes is counted. When it is over, those who were told are told that. Should it come
back within the same window, it fires again without a message, until the window ends: then it is told anew. Who resets the key
ends the window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Final

from spanfuse_processor.errors import QueryError
from spanfuse_processor.exporters.alerts.held import Held, Timing, begun
from spanfuse_processor.exporters.alerts.model import Alert, AlertPage, AlertQuery, Notice
from spanfuse_processor.exporters.alerts.signal import Over, Signal

MAX_ALERTS: Final = 2_000
"""Alerts remembered, some 1 KB each; of more, those that are over go first, the oldest first."""


class Book:
    """The alerts.

    Args:
        timing: how they go by the clock.
        rows: what was stored of them.
    """

    def __init__(self, timing: Timing | None = None, rows: Iterable[bytes] = ()) -> None:
        self._timing = timing or Timing()
        self._held: dict[tuple[str, str], Held] = {}
        self._by_id: dict[str, Held] = {}
        """All of them, also those whose rule and key have a newer one."""
        self.forgotten = 0
        """Alerts that fired still when there was no room for them."""
        self.begun: Counter[tuple[str, str]] = Counter()
        """Rule and severity → alerts that began to fire, since the start."""
        self._changed: dict[str, Held | None] = {}
        for row in rows:
            self._restore(row)

    def _restore(self, row: bytes) -> None:
        try:
            held = Held.from_row(row)
        except (ValueError, KeyError, TypeError):  # of another version: it fires anew if it still does
            return
        if held.firing and held.open and not held.alert.receivers:
            held.open, held.told, held.due_ns = False, -1, held.seen_ns or 1
        self._by_id[held.alert.id] = held
        known = self._held.get((held.alert.rule, held.alert.key))
        if known is None or known.alert.first_ns <= held.alert.first_ns:
            self._held[held.alert.rule, held.alert.key] = held

    def __len__(self) -> int:
        return len(self._by_id)

    def firing(self) -> list[Alert]:
        """Those that are not over."""
        return [held.alert for held in self._held.values() if held.firing]

    def changes(self, most: int | None = None) -> dict[str, bytes | None]:
        """What is to be stored, by id, since the last time it was asked, so many at most; none: it is forgotten."""
        changed = {id: self._changed.pop(id) for id in list(islice(self._changed, most))}
        return {id: held.to_row() if held is not None else None for id, held in changed.items()}

    def has_seen(self, rule: str, key: str, at_ns: int) -> bool:
        """Whether an alert knows what happened then, or later."""
        held = self._held.get((rule, key))
        return held is not None and held.alert.last_ns >= at_ns

    def save_again(self, ids: Iterable[str]) -> None:
        """These could not be stored."""
        for id in ids:
            self._changed.setdefault(id, self._by_id.get(id))

    def take(self, signal: Signal, now_ns: int) -> None:
        """Something happens."""
        held = self._held.get((signal.rule, signal.key))
        if held is None or (not held.firing and now_ns >= held.window_end_ns):
            self._begin(signal, now_ns)
            return
        if not held.firing:
            held.change(state="firing", resolved_ns=None, acknowledged_by="")
            held.holds, held.lapses_ns = False, 0
        if now_ns >= held.window_end_ns:
            told = held.told
            held.turn(signal, now_ns, self._timing)
            held.told = told if held.alert.acknowledged_by else -1
        held.merge(signal, now_ns)
        held.change(count=held.alert.count + (0 if signal.holds else 1))
        self._plan(held, now_ns)

    def _begin(self, signal: Signal, now_ns: int) -> None:
        held = begun(signal, now_ns, self._timing)
        self._held[signal.rule, signal.key] = self._by_id[held.alert.id] = held
        self.begun[held.alert.rule, held.alert.severity] += 1
        self._plan(held, now_ns)
        self._make_room()

    def _plan(self, held: Held, now_ns: int) -> None:
        """Tell of it if that is worse than what was told within this window."""
        self._changed[held.alert.id] = held
        if held.level > held.told and not held.due_ns:
            held.due_ns = now_ns + self._timing.gather_ns

    def over(self, over: Over, now_ns: int) -> None:
        """What stood against a key is over."""
        for held in self._of(over):
            if held.firing and (held.holds or over.rearm):
                self._resolve(held, over.at_ns, now_ns)
            if over.rearm:
                held.window_end_ns = min(held.window_end_ns, now_ns)
                self._changed[held.alert.id] = held

    def _of(self, over: Over) -> list[Held]:
        rules = [over.rule] if over.rule else [rule for rule, key in self._held if key == over.key]
        return [held for rule in rules if (held := self._held.get((rule, over.key))) is not None]

    def _resolve(self, held: Held, at_ns: int, now_ns: int) -> None:
        held.change(state="resolved", resolved_ns=max(at_ns, held.alert.first_ns), expires_at_ns=None)
        held.holds, held.lapses_ns = False, 0
        held.due_ns = now_ns if held.open else 0
        self._changed[held.alert.id] = held

    def tick(self, now_ns: int) -> list[Notice]:
        """Time has passed: what people are to be told now."""
        told: list[Notice] = []
        for held in list(self._held.values()):
            self._pass(held, now_ns)
            if held.due_ns and now_ns >= held.due_ns and (notice := self._tell(held, now_ns)) is not None:
                told.append(notice)
        return told

    def _pass(self, held: Held, now_ns: int) -> None:
        if not held.firing:
            return
        ends_ns = held.ends_ns(self._timing)
        if ends_ns and now_ns >= ends_ns:
            self._resolve(held, ends_ns, now_ns)
        elif not held.open and not held.due_ns and now_ns >= held.window_end_ns:  # it came back, and was not told
            held.window_end_ns, held.told = now_ns + self._timing.window_ns, -1
            self._plan(held, now_ns)

    def _tell(self, held: Held, now_ns: int) -> Notice | None:
        if not held.firing:
            held.due_ns, held.open = 0, False
            self._changed[held.alert.id] = held
            return Notice("resolved", held.alert)
        if (held.alert.snoozed_until_ns or 0) > now_ns:
            return None
        held.due_ns = 0
        self._changed[held.alert.id] = held
        if held.level <= held.told:
            return None
        held.told, held.open = held.level, True
        return Notice("firing", held.alert)

    def next_ns(self) -> int:
        """When `tick` has something to do at the latest; 0: not by itself."""
        moments = [
            moment
            for held in self._held.values()
            for moment in (
                max(held.due_ns, (held.alert.snoozed_until_ns or 0) if held.firing else 0) if held.due_ns else 0,
                held.ends_ns(self._timing) if held.firing else 0,
                held.window_end_ns if held.firing and not held.open and not held.due_ns else 0,
            )
            if moment
        ]
        return min(moments, default=0)

    def sent_to(self, id: str, receivers: tuple[str, ...]) -> None:
        """So many are told of it."""
        held = self._by_id.get(id)
        if held is not None:
            held.change(receivers=tuple(dict.fromkeys((*held.alert.receivers, *receivers))))
            self._changed[id] = held

    def ack(self, id: str, actor: str) -> Alert | None:
        """Somebody has taken it on."""
        held = self._by_id.get(id)
        if held is None or not held.firing:
            return held.alert if held is not None else None
        self._changed[id] = held
        return held.change(acknowledged_by=actor or "somebody")

    def snooze(self, id: str, until_ns: int, now_ns: int) -> Alert | None:
        """Nobody is told of it until then."""
        held = self._by_id.get(id)
        if held is None:
            return None
        self._changed[id] = held
        return held.change(snoozed_until_ns=until_ns if until_ns > now_ns else None)

    def page(self, query: AlertQuery) -> AlertPage:
        """Alerts, newest first.

        Raises:
            QueryError: the cursor is none of this list.
        """
        wanted = {name: value for name in ("state", "severity", "rule", "key") if (value := getattr(query, name))}
        found = [held.alert for held in self._by_id.values()]
        found = [alert for alert in found if all(getattr(alert, name) == value for name, value in wanted.items())]
        found.sort(key=_place, reverse=True)
        if query.cursor:
            behind = _cursor(query.cursor)
            found = [alert for alert in found if _place(alert) < behind]
        page = found[: query.limit]
        more = len(found) > query.limit
        return AlertPage(alerts=tuple(page), next=f"{page[-1].first_ns}-{page[-1].id}" if more else "")

    def _make_room(self) -> None:
        """Forget the oldest, some at once, since to find them takes a while."""
        if len(self) <= MAX_ALERTS:
            return
        oldest = sorted(self._by_id.values(), key=lambda held: (held.firing, held.alert.last_ns))
        for held in oldest[: max(1, len(self) - MAX_ALERTS, MAX_ALERTS // 20)]:
            self.forgotten += held.firing
            del self._by_id[held.alert.id]
            if self._held.get(place := (held.alert.rule, held.alert.key)) is held:
                del self._held[place]
            self._changed[held.alert.id] = None


def _place(alert: Alert) -> tuple[int, str]:
    return alert.first_ns, alert.id


def _cursor(text: str) -> tuple[int, str]:
    number, _, id = text.partition("-")
    if not (number.isascii() and number.isdecimal() and len(number) < 20):
        raise QueryError("the cursor is none of this list")
    return int(number), id
