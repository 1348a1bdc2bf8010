"""The alerts of a host: listens to it as anybody does, keeps the book, and has messages sent. The host waits for none of it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import httpx
import orjson

from spanfuse_processor.config.alerts import Alerts as Settings
from spanfuse_processor.errors import QueryError, SpanfuseError, UnavailableError
from spanfuse_processor.exporters.alerts.book import Book
from spanfuse_processor.exporters.alerts.delivery import Outlet
from spanfuse_processor.exporters.alerts.held import Timing
from spanfuse_processor.exporters.alerts.intake import Intake
from spanfuse_processor.exporters.alerts.model import Alert, AlertPage, AlertQuery, Delivery, Notice
from spanfuse_processor.exporters.alerts.receivers import senders
from spanfuse_processor.exporters.alerts.routes import receivers_of
from spanfuse_processor.exporters.alerts.source import Source
from spanfuse_processor.exporters.alerts.store import AlertStore
from spanfuse_processor.exporters.alerts.watch import Watch
from spanfuse_processor.exporters.news import Follower, News

log = logging.getLogger(__name__)

TICK_S: Final = 0.25
"""How often the book is looked at, seconds."""
TOGETHER: Final = 20
"""News that are taken without a break, a few milliseconds."""
SAVED_AT_ONCE: Final = 200
"""Alerts that are stored with one look, some 10 ms; the others with the next."""
SAVED_EVERY_S: Final = 300.0
"""How often what the watchers have learned is stored, seconds."""
STATE: Final = "~watch"
"""Id of the row with what the watchers have learned; no alert has it."""


class AlertService:
    """See `api.alerts.Alerts`, which this is.

    Args:
        source: the host.
        settings: who is told of what.
        store: keeps the book.
        clock: now, nanoseconds since the Unix epoch.
    """

    def __init__(
        self, source: Source, settings: Settings, store: AlertStore, clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._source, self._settings, self._store, self._clock = source, settings, store, clock
        self._timing = Timing(int(settings.window_s * 1e9), int(settings.resolve_after_s * 1e9))
        self._book = Book(self._timing)
        self._watch = Watch(source, settings.watch)
        self._outlets: dict[str, Outlet] = {}
        self._client: httpx.AsyncClient | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._intake = Intake(source, self._book)
        self._until_ns = 0
        self._ticked_s = self._saved_s = 0.0
        self.unsaved = 0
        """Times that the book could not be stored."""
        self.failed = 0
        """News and looks that met an error nobody foresaw."""
        self._caught_up = False
        self._news = Follower(source)

    async def start(self) -> None:
        """Go on where it was, and listen from this moment on."""
        with suppress(UnavailableError):  # it is tried again
            self._news.listen()
        await self._restore()
        timeout = httpx.Timeout(self._settings.timeout_s)
        self._client = httpx.AsyncClient(timeout=timeout, headers={"User-Agent": "spanfuse"})
        for name, sender in senders(self._settings, self._client).items():
            s = self._settings
            self._outlets[name] = Outlet(name, sender, s.queue, s.timeout_s, s.give_up_after_s)
        work = [self._listen(), self._look(), *(outlet.run() for outlet in self._outlets.values())]
        self._tasks = [asyncio.create_task(one, name="alerts") for one in work]

    async def _restore(self) -> None:
        try:
            rows = await self._store.load()
        except SpanfuseError as error:
            log.warning("the alerts cannot be read, and begin anew: %s", error)
            return
        state = orjson.loads(rows.pop(STATE, b"{}"))
        self._watch.restore(state)
        self._until_ns = int(state.get("until_ns", 0))
        self._book = Book(self._timing, rows.values())
        self._intake = Intake(self._source, self._book)

    async def stop(self, grace_s: float = 1.0) -> None:
        """Send what waits, as far as that takes no longer than `grace_s` seconds, and store the book."""
        for task in self._tasks[:2]:
            task.cancel()
        self._tell(self._clock())
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await asyncio.gather(*(outlet.idle.wait() for outlet in self._outlets.values()))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._client is not None:
            await self._save(everything=True)
            await self._client.aclose()
            self._client = None

    @property
    def live(self) -> bool:
        """Whether all of it goes on."""
        return not any(task.done() for task in self._tasks)

    def status(self) -> dict[str, Any]:
        """How many fire, and what became of messages."""
        receivers = {name: {**outlet.counts, "waiting": len(outlet)} for name, outlet in self._outlets.items()}
        firing, forgotten = len(self._book.firing()), self._book.forgotten
        return {
            "firing": firing,
            "forgotten": forgotten,
            "unsaved": self.unsaved,
            "failed": self.failed,
            "receivers": receivers,
        }

    @property
    def begun(self) -> Counter[tuple[str, str]]:
        """Rule and severity → alerts that began to fire, since the start."""
        return self._book.begun

    async def alerts(self, query: AlertQuery) -> AlertPage:
        """Alerts, newest first."""
        return self._book.page(query)

    async def ack(self, id: str, actor: str) -> Alert | None:
        """Somebody has taken it on."""
        alert = self._book.ack(id, actor)
        if alert is not None and alert.state == "firing":
            for name in alert.receivers:
                if name.startswith("pagerduty"):
                    self._put(name, Notice("acknowledged", alert))
        await self._save()
        return alert

    async def snooze(self, id: str, until_ns: int, actor: str) -> Alert | None:
        """Nobody is told of it until then."""
        alert = self._book.snooze(id, until_ns, self._clock())
        await self._save()
        return alert

    async def test(self, receiver: str, actor: str) -> list[Delivery]:
        """Send a message that says it is a test.

        Raises:
            QueryError: there is no receiver of that name.
        """
        if receiver and receiver not in self._outlets:
            raise QueryError(f"there is no receiver of that name; there are {', '.join(self._outlets) or 'none'}")
        notice = Notice("test", _example(self._clock(), actor))
        chosen = [outlet for name, outlet in self._outlets.items() if receiver in ("", name)]
        return list(await asyncio.gather(*(outlet.test(notice) for outlet in chosen)))

    async def _listen(self) -> None:
        async for group in self._news.groups(TICK_S):
            try:
                await self._hear(group, self._clock())
            except Exception:  # whatever is the matter with some news, the next are heard
                self._fail()

    def _fail(self) -> None:
        if not self.failed:
            log.exception("the alerts cannot use what they were told; such is counted, the first is logged")
        self.failed += 1

    async def _hear(self, group: list[News], now_ns: int) -> None:
        for n, one in enumerate(group):
            if n % TOGETHER == 0:
                await asyncio.sleep(0)  # the host goes on in between
            if one.event == "anew" or (one.event == "ready" and not self._caught_up):
                await self._intake.catch_up(self._until_ns, now_ns)
                self._caught_up = True
            await self._intake.take(one, now_ns)
        if time.monotonic() - self._ticked_s >= TICK_S:
            self._tell(now_ns)
            await self._save()

    def _tell(self, now_ns: int) -> None:
        """Hand out what is to be told now."""
        self._ticked_s = time.monotonic()
        for notice in self._book.tick(now_ns):
            told = receivers_of(notice.alert, self._settings) if notice.what == "firing" else notice.alert.receivers
            for name in told:
                self._put(name, notice)
            if notice.what == "firing":
                self._book.sent_to(notice.alert.id, told)

    def _put(self, name: str, notice: Notice) -> None:
        if (outlet := self._outlets.get(name)) is not None:
            outlet.put(notice)

    async def _look(self) -> None:
        while True:
            now_ns = self._clock()
            try:
                for found in await self._watch.look(now_ns):
                    self._intake.apply(found, now_ns)
            except Exception:
                self._fail()
            await asyncio.sleep(self._settings.watch.interval_s)

    async def _save(self, *, everything: bool = False) -> None:
        rows: dict[str, bytes | None] = self._book.changes(None if everything else SAVED_AT_ONCE)
        if everything or time.monotonic() - self._saved_s >= SAVED_EVERY_S:
            self._saved_s, self._until_ns = time.monotonic(), self._clock()
            rows[STATE] = orjson.dumps(
                self._watch.snapshot() | {"until_ns": self._until_ns}, option=orjson.OPT_NON_STR_KEYS
            )
        try:
            if rows:
                await self._store.save(rows)
        except SpanfuseError as error:
            if not self.unsaved:
                log.warning("the alerts cannot be stored: %s", error)
            self.unsaved += 1
            self._book.save_again(rows)


def _example(now_ns: int, actor: str) -> Alert:
    return Alert(
        id=f"test-{now_ns:x}", rule="test", key="session:example", severity="info", title="This is a test of spanfuse's alerts",
        message=f"{actor or 'Somebody'} asked for it. Nothing has happened, and there is nothing to do.", agent="example",
        session="example", first_ns=now_ns, last_ns=now_ns, release="spanfuse reset session:example",
    )  # fmt: skip
