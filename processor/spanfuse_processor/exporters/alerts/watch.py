"""Asks the host from time to time what no rule sees, and hands it to the watchers. What cannot be asked now is asked again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from spanfuse_processor.config.alerts import Watch as Settings
from spanfuse_processor.errors import SpanfuseError
from spanfuse_processor.exporters.alerts.signal import Over, Signal
from spanfuse_processor.exporters.alerts.source import Source
from spanfuse_processor.exporters.alerts.watchers import spike
from spanfuse_processor.exporters.alerts.watchers.block_rate import BlockRates
from spanfuse_processor.exporters.alerts.watchers.health import HealthWatch
from spanfuse_processor.exporters.alerts.watchers.silence import Silence
from spanfuse_processor.exporters.alerts.watchers.unpriced import Unpriced
from spanfuse_processor.exporters.readmodel.model import SeriesKind, SessionQuery, SessionRow

log = logging.getLogger(__name__)

SPIKE_EVERY: Final = 5
"""Spend is compared in every fifth look: it takes a question for each agent and team."""
MAX_AGENTS: Final = 200
"""Agents whose spend is compared, the dearest; as many sessions are looked at for their teams."""
HOUR_NS: Final = 3600 * 10**9
FIRST_MINUTES: Final = 24 * 60
"""Minutes asked for of a scope that is not known: all that are kept."""
MINUTES: Final = 180
"""Minutes asked for later: those of the hours that may not have been whole at the last look."""

Found = Signal | Over


class Learner(Protocol):
    """A watcher that remembers what is usual."""

    def restore(self, found: Any) -> None:
        """The inverse of `snapshot`."""


class Watch:
    """The watchers.

    Args:
        source: the host.
        settings: what is looked at.
    """

    def __init__(self, source: Source, settings: Settings) -> None:
        self._source, self._settings = source, settings
        self._silence, self._unpriced, self._blocks = Silence(), Unpriced(), BlockRates()
        self._spikes, self._health = spike.Spikes(), HealthWatch()
        self._looks = 0
        self._told: set[str] = set()

    def snapshot(self) -> dict[str, Any]:
        """What was learned, as JSON."""
        return {
            "silence": self._silence.snapshot(), "unpriced": self._unpriced.snapshot(),
            "blocks": self._blocks.snapshot(), "spikes": self._spikes.snapshot(),
        }  # fmt: skip

    def restore(self, found: Mapping[str, Any]) -> None:
        """The inverse; what is of another version is learned anew."""
        watchers: dict[str, Learner] = {
            "silence": self._silence,
            "unpriced": self._unpriced,
            "blocks": self._blocks,
            "spikes": self._spikes,
        }
        for name, watcher in watchers.items():
            try:
                if name in found:
                    watcher.restore(found[name])
            except (TypeError, ValueError, AttributeError):
                log.warning("what the alerts had learned for %s cannot be read; it is learned anew", name)

    async def look(self, now_ns: int) -> list[Found]:
        """Look once."""
        asked: list[tuple[bool, Callable[[int], AsyncIterator[Found]]]] = [
            (self._settings.silence.enabled, self._look_for_silence),
            (self._settings.block_rate.enabled, self._look_at_blocks),
            (self._settings.unpriced.enabled or self._settings.health.enabled, self._look_at_status),
            (self._settings.spike.enabled and self._looks % SPIKE_EVERY == 0, self._look_for_spikes),
        ]
        self._looks += 1
        found: list[Found] = []
        for wanted, ask in asked:
            if wanted:
                found += await self._asked(ask, now_ns)
        return found

    async def _asked(self, ask: Callable[[int], AsyncIterator[Found]], now_ns: int) -> list[Found]:
        try:
            return [one async for one in ask(now_ns)]
        except SpanfuseError as error:
            if ask.__name__ not in self._told:
                log.warning("the alerts could not ask: %s", error)
            self._told.add(ask.__name__)
            return []

    async def _look_for_silence(self, now_ns: int) -> AsyncIterator[Found]:
        rows = await self._source.agents()
        last = {f"agent:{row['agent']}": int(row["last_ns"]) for row in rows if row["agent"]}
        for found in self._silence.look(last, now_ns, self._settings.silence):
            yield found

    async def _look_at_blocks(self, now_ns: int) -> AsyncIterator[Found]:
        settings = self._settings.block_rate
        page = await self._source.sessions(SessionQuery(since_ns=now_ns - int(settings.window_s * 1e9), limit=1_000))
        for found in self._blocks.look(page.sessions, now_ns, settings):
            yield found

    async def _look_at_status(self, now_ns: int) -> AsyncIterator[Found]:
        status = await self._source.status()
        found: list[Iterable[Signal]] = []
        if self._settings.health.enabled:
            found.append(self._health.look(status, self._source.live, now_ns))
        if self._settings.unpriced.enabled:
            found.append(self._unpriced.look(status.get("unknown_models", {}), now_ns))
        for signals in found:
            for one in signals:
                yield one

    async def _look_for_spikes(self, now_ns: int) -> AsyncIterator[Found]:
        settings = self._settings.spike
        scopes: list[tuple[SeriesKind, str]] = [("global", "*")]
        scopes += [
            ("agent", row["agent"]) for row in await self._source.agents() if now_ns - row["last_ns"] < 2 * HOUR_NS
        ][:MAX_AGENTS]
        dearest = await self._dearest(now_ns, limit=MAX_AGENTS)
        scopes += [("team", team) for team in dict.fromkeys(row.team for row in dearest) if team]
        for kind, name in scopes:
            key = f"{kind}:{name}"
            minutes = await self._source.series(kind, name, MINUTES if self._spikes.knows(key) else FIRST_MINUTES)
            spiked = self._spikes.look(key, minutes, settings)
            if spiked is not None:
                whose = {kind: name} if kind in ("agent", "team") else {}
                top = await self._dearest(now_ns, limit=1, **whose)
                yield spike.signal(spiked, top[0] if top else None, settings, now_ns)
            await asyncio.sleep(0)  # the host answers others in between

    async def _dearest(self, now_ns: int, limit: int, **whose: str) -> tuple[SessionRow, ...]:
        """Sessions at work within the last hour, the dearest first."""
        query = SessionQuery(since_ns=now_ns - HOUR_NS, sort="cost", limit=limit, **whose)
        return (await self._source.sessions(query)).sessions
