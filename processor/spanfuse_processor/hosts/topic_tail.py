"""Follows topics without a consumer group: what is in them, then what comes; Kafka may be away meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.hosts.errand import new_consumer

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings

log = logging.getLogger(__name__)

POLL_MS: Final = 200
RETRY_S: Final = 2.0
"""How long it waits after Kafka did not answer, seconds."""

From = Literal["beginning", "end"]


class Tail:
    """One reader of all partitions of some topics. A record that was told is not told again, unless its topic is made anew.

    Args:
        topics: each with its number of partitions, and where to begin.
        took: called with each record.
    """

    def __init__(
        self, settings: KafkaSettings, topics: Mapping[str, tuple[int, From]], took: Callable[[Any], None]
    ) -> None:
        self._settings, self._took = settings, took
        self._from = {TopicPartition(name, p): start for name, (count, start) in topics.items() for p in range(count)}
        self._next: dict[TopicPartition, int] = {}
        self.following = False
        """It is connected, and has come to where the topics ended."""

    async def catch_up(self) -> None:
        """Take what is in the topics at present.

        Raises:
            UnavailableError: Kafka does not answer.
        """
        async with new_consumer(self._settings) as consumer:
            try:
                await self._to_the_end(consumer)
            except KafkaError as error:
                raise UnavailableError(f"Kafka at {self._settings.brokers}: {error}") from error

    async def run(self) -> None:
        """Take what comes, until it is cancelled."""
        told = False
        while True:
            try:
                async with new_consumer(self._settings) as consumer:
                    await self._to_the_end(consumer)
                    self.following, told = True, False
                    while True:
                        await self._some(consumer)
            except (KafkaError, UnavailableError) as error:
                if not told:
                    log.warning("topics cannot be followed; it is tried again every %g s: %s", RETRY_S, error)
                told = True
                await asyncio.sleep(RETRY_S)
            finally:
                self.following = False

    async def _to_the_end(self, consumer: AIOKafkaConsumer) -> None:
        ends = await self._begin(consumer)
        while any(self._next[tp] < end for tp, end in ends.items()):
            await self._some(consumer)

    async def _begin(self, consumer: AIOKafkaConsumer) -> dict[TopicPartition, int]:
        """Go to where it was, and tell where the topics end."""
        tps = list(self._from)
        consumer.assign(tps)
        begins, ends = await consumer.beginning_offsets(tps), await consumer.end_offsets(tps)
        for tp in tps:
            first = begins[tp] if self._from[tp] == "beginning" else ends[tp]
            known = self._next.get(tp, first)
            self._next[tp] = max(known, begins[tp]) if known <= ends[tp] else begins[tp]
            consumer.seek(tp, self._next[tp])
        return dict(ends)

    async def _some(self, consumer: AIOKafkaConsumer) -> None:
        found = await consumer.getmany(timeout_ms=POLL_MS)
        for tp, records in found.items():
            for record in records:
                self._next[tp] = record.offset + 1
                self._took(record)
        for tp in self._from:  # what compaction has left out is behind it, too
            self._next[tp] = max(self._next[tp], await consumer.position(tp))
