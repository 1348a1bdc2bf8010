"""A sample of a topic: its newest messages, read beside the workers, in no consumer group."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from spanfuse_processor.errors import SpanfuseError, UnavailableError
from spanfuse_processor.hosts.kafka import client_options, start_client, within

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings

SILENCE_S: Final = 15.0
"""A broker that sends nothing of what it has for so long, seconds, is given up."""
_STOP_S: Final = 5.0

Take = Callable[[Any], None]
"""Gets one message: `.value`, `.timestamp` in milliseconds, `.partition`, `.offset`."""


async def newest(settings: KafkaSettings, topic: str, messages: int, minutes: float | None, take: Take) -> int:
    """Read the newest messages of a topic, partition by partition, up to where each ends now.

    Args:
        messages: at most so many, an equal share of each partition.
        minutes: only those of the last minutes; none: however old.

    Returns:
        How many there were.

    Raises:
        SpanfuseError: if there is no such topic.
        UnavailableError: if Kafka does not answer.
    """
    await _must_exist(settings, topic)
    consumer = AIOKafkaConsumer(topic, **client_options(settings), group_id=None, enable_auto_commit=False)
    await start_client(consumer, settings)
    try:
        return await _read(
            consumer, messages, 0 if minutes is None else round((time.time() - minutes * 60) * 1000), take
        )
    except KafkaError as error:
        raise UnavailableError(f"Kafka at {settings.brokers}: {error}") from error
    finally:
        with suppress(KafkaError):
            await within(_STOP_S, consumer.stop())


async def _must_exist(settings: KafkaSettings, topic: str) -> None:
    """To ask a broker for a topic may create it."""
    admin = AIOKafkaAdminClient(**client_options(settings), request_timeout_ms=20_000)
    await start_client(admin, settings)
    try:
        if topic not in await admin.list_topics():
            raise SpanfuseError(f"{settings.brokers} has no topic {topic}")
    finally:
        await admin.close()


async def _read(consumer: AIOKafkaConsumer, messages: int, since_ms: int, take: Take) -> int:
    parts = sorted(consumer.assignment())
    ends = await consumer.end_offsets(parts)
    begins = await _begins(consumer, parts, ends, messages, since_ms)
    left = {part: ends[part] for part in parts if begins[part] < ends[part]}
    consumer.pause(*(part for part in parts if part not in left))
    for part in left:
        consumer.seek(part, begins[part])
    taken = 0
    while left:
        batches = await asyncio.wait_for(consumer.getmany(*left, timeout_ms=1_000), SILENCE_S)
        for part, batch in batches.items():
            for message in batch:
                if message.offset < ends[part] and message.timestamp >= since_ms:  # times need not ascend
                    take(message)
                    taken += 1
        for part in [part for part, end in left.items() if await consumer.position(part) >= end]:
            del left[part]
            consumer.pause(part)
    return taken


async def _begins(
    consumer: AIOKafkaConsumer,
    parts: list[TopicPartition],
    ends: dict[TopicPartition, int],
    messages: int,
    since_ms: int,
) -> dict[TopicPartition, int]:
    """Where to begin in each partition."""
    share = -(-messages // max(1, len(parts)))
    begins = {part: max(first, ends[part] - share) for part, first in (await consumer.beginning_offsets(parts)).items()}
    if since_ms:
        for part, found in (await consumer.offsets_for_times(dict.fromkeys(parts, since_ms))).items():
            begins[part] = max(begins[part], ends[part] if found is None else found.offset)
    return begins
