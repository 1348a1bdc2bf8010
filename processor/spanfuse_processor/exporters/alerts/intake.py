"""What happens, as the host tells it, into the book."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from pydantic import ValidationError

from spanfuse_processor.errors import SpanfuseError
from spanfuse_processor.exporters.alerts.book import Book
from spanfuse_processor.exporters.alerts.signal import Over, Signal
from spanfuse_processor.exporters.alerts.signals import BUDGET, about, of_decision, of_detection, of_order
from spanfuse_processor.exporters.alerts.source import Source
from spanfuse_processor.exporters.news import News
from spanfuse_processor.exporters.readmodel.model import DetectionQuery
from spanfuse_schemas import Decision, Detection
from spanfuse_schemas.budget import Audited

log = logging.getLogger(__name__)

ASKED_S: Final = 2.0
"""How long the account of a budget may take, seconds; without it the message lacks the limit."""
MAX_CAUGHT_UP: Final = 1_000
"""Detections looked at that came while nobody listened."""
SLACK_NS: Final = 60 * 10**9
"""Clocks of agents may be behind by so much when it is asked what came meanwhile."""
MAX_SEEN: Final = 10_000
"""Detections of which it is remembered that they were taken: Kafka may bring one twice."""


class Intake:
    """The way into the book.

    Args:
        source: the host.
        book: the alerts.
    """

    def __init__(self, source: Source, book: Book) -> None:
        self._source, self._book = source, book
        self._seen: dict[str, None] = {}

    async def take(self, one: News, now_ns: int) -> None:
        """Take in an event."""
        try:
            match one.event:
                case "detection":
                    await self._take_detection(Detection.from_json(one.data), now_ns)
                case "decision":
                    await self._take_decision(Decision.from_json(one.data), now_ns)
                case "audit":
                    self.apply(of_order(Audited.from_json(one.data)), now_ns)
        except ValidationError:
            log.warning("the alerts cannot read an event %s", one.event)

    async def _take_detection(self, found: Detection, now_ns: int) -> None:
        if found.id in self._seen or found.mode == "shadow":
            return
        self._seen[found.id] = None
        if len(self._seen) > MAX_SEEN:
            del self._seen[next(iter(self._seen))]
        self.apply(
            of_detection(found, self._source.policy.policy.mode, await self._account(about(found), found.rule)), now_ns
        )

    async def _take_decision(self, decision: Decision, now_ns: int) -> None:
        account = await self._account(decision.key, decision.rule) if decision.action != "allow" else None
        self.apply(of_decision(decision, account), now_ns)

    async def _account(self, scope: str, rule: str) -> dict[str, Any] | None:
        """The account of a budget; none: it is none, or cannot be told now."""
        if not rule.startswith(BUDGET):
            return None
        try:
            async with asyncio.timeout(ASKED_S):
                rows = await self._source.budgets(scope)
        except (SpanfuseError, TimeoutError):
            return None
        return next((row for row in rows if row["budget"] == rule.removeprefix(BUDGET)), None)

    def apply(self, found: Signal | Over | None, now_ns: int) -> None:
        """Enter it."""
        if isinstance(found, Signal):
            self._book.take(found, now_ns)
        elif found is not None:
            self._book.over(found, now_ns)

    async def catch_up(self, since_ns: int, now_ns: int) -> None:
        """Look at what came while nobody listened: decisions that stand or are gone, and detections.

        Args:
            since_ns: since when, nanoseconds since the Unix epoch; 0: nobody ever listened, and the past is left alone.
        """
        try:
            standing = {decision.key: decision for decision in self._source.decisions()}
            missed = await self._missed(since_ns)
        except SpanfuseError as error:
            log.warning("the alerts cannot catch up: %s", error)
            return
        known = {(alert.rule, alert.key): alert for alert in self._book.firing()}
        for alert in known.values():
            if alert.mode and alert.key not in standing:
                self._book.over(Over(alert.key, now_ns), now_ns)
        for decision in standing.values() if since_ns else ():
            if (decision.rule, decision.key) not in known:
                await self._take_decision(decision, now_ns)
        for found in missed:
            await self._take_detection(found, now_ns)

    async def _missed(self, since_ns: int) -> list[Detection]:
        """Detections since then, oldest first, that are in no alert yet."""
        if not since_ns:
            return []
        query = DetectionQuery(since_ns=max(1, since_ns - SLACK_NS), limit=MAX_CAUGHT_UP)
        found = (await self._source.detections(query)).detections
        return [one for one in reversed(found) if not self._book.has_seen(one.rule, about(one), one.at_ns)]
