"""How far workers are behind: of each topic, messages that none of them has committed yet."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.hosts.errand import new_consumer
from spanfuse_processor.hosts.kafka import client_options, start_client, within
from spanfuse_processor.hosts.topics import APP_ID
from spanfuse_schemas.topics import CALLS, CHARGES, OTLP_LOGS, OTLP_SPANS

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings

log = logging.getLogger(__name__)

READ: Final = (OTLP_SPANS, OTLP_LOGS, CALLS, CHARGES)
"""Topics that workers read."""
INTERVAL_S: Final = 5.0
STOP_TIMEOUT_S: Final = 2.0


class Lag:
    """Looks from time to time, over connections that are kept."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self.found: dict[str, int] | None = None
        """Topic → messages; none: it is not known at present."""

    async def run(self) -> None:
        """Look, until it is cancelled; Kafka may be away meanwhile."""
        while True:
            try:
                await self._look()
            except (KafkaError, UnavailableError) as error:
                log.info("the lag of workers is not known: %s", error)
            self.found = None
            await asyncio.sleep(INTERVAL_S)

    async def _look(self) -> None:
        admin = AIOKafkaAdminClient(**client_options(self._settings))
        await start_client(admin, self._settings)
        try:
            async with new_consumer(self._settings) as consumer:
                while True:
                    self.found = await self._measured(admin, consumer)
                    await asyncio.sleep(INTERVAL_S)
        finally:
            with suppress(KafkaError):
                await within(STOP_TIMEOUT_S, admin.close())

    async def _measured(self, admin: AIOKafkaAdminClient, consumer: Any) -> dict[str, int]:
        described = await admin.describe_topics(list(READ))
        tps = [TopicPartition(t["topic"], p["partition"]) for t in described for p in t["partitions"]]
        ends, begins = await consumer.end_offsets(tps), await consumer.beginning_offsets(tps)
        done = await admin.list_consumer_group_offsets(APP_ID)
        found = dict.fromkeys(READ, 0)
        for tp in tps:
            committed = done[tp].offset if tp in done else -1
            found[tp.topic] += max(0, ends[tp] - max(committed, begins[tp]))
        return found
