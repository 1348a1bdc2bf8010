"""An operator's reset of a stream deployment: the order goes where the calls of the session go, or the charges of the
scope, and its effect is waited for."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from pydantic import ValidationError

from spanfuse_processor.errors import SpanfuseError, UnavailableError
from spanfuse_processor.hosts.kafka import client_options, new_producer, start_client
from spanfuse_schemas import CallBatch, ChargeBatch, Decision, Reset
from spanfuse_schemas.topics import CALLS, CHARGES, CONTROL, partition_of

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings

STOP_TIMEOUT_S: Final = 5.0
"""How long a client may take to close, seconds."""


async def reset_breaker(settings: KafkaSettings, key: str, actor: str, timeout_s: float) -> Decision:
    """Send a Reset to the worker that holds the state of a key, and wait until it has closed the breaker.

    Args:
        key: key of the breaker, such as `session:checkout-42` or `agent:research`.
        actor: who orders it.
        timeout_s: how long the worker may take, seconds.

    Raises:
        UnavailableError: if Kafka does not answer, or no worker has closed the breaker in time.
        SpanfuseError: if the worker knows nothing of the key; a block of it that still stood in the control topic is
            cleared all the same.
    """
    consumer = AIOKafkaConsumer(**client_options(settings), group_id=None, enable_auto_commit=False)
    producer = new_producer(settings, linger_ms=0)
    try:
        await start_client(consumer, settings)
        await start_client(producer, settings)
        decision = await asyncio.wait_for(_reset(consumer, producer, key, actor), timeout_s)
    except TimeoutError:
        raise UnavailableError(
            f"no worker has closed {key} within {timeout_s:g} s; are the topics there and a worker running?"
        ) from None
    except KafkaError as error:
        raise UnavailableError(f"Kafka at {settings.brokers}: {error}") from error
    finally:
        for client in (producer, consumer):
            await stop_client(client)
    if not decision.epoch:
        raise SpanfuseError(f"nothing is known of {key}; whatever Guards still held against it is cleared")
    return decision


async def _reset(consumer: AIOKafkaConsumer, producer: AIOKafkaProducer, key: str, actor: str) -> Decision:
    await _follow_from_now(consumer)
    reset = Reset(key=key, at_ns=time.time_ns(), actor=actor)
    kind, _, name = key.partition(":")
    topic, place = (CALLS, name) if kind == "session" else (CHARGES, key)
    order = CallBatch(resets=(reset,)) if kind == "session" else ChargeBatch(resets=(reset,))
    partition = partition_of(place, len(await producer.partitions_for(topic)))
    await producer.send_and_wait(topic, order.to_json(), partition=partition)
    while True:
        record = await consumer.getone()
        decision = _decision(record.value)
        # The time of the order is on the decision that it led to, and so tells it from any other close.
        if decision is not None and decision.key == reset.key and decision.issued_at_ns == reset.at_ns:
            return decision


async def _follow_from_now(consumer: AIOKafkaConsumer) -> None:
    control = TopicPartition(CONTROL, 0)
    consumer.assign([control])
    end = await consumer.end_offsets([control])
    consumer.seek(control, end[control])


def _decision(value: bytes | None) -> Decision | None:
    try:
        return Decision.from_json(value) if value else None
    except ValidationError:
        return None


async def stop_client(client: AIOKafkaConsumer | AIOKafkaProducer) -> None:
    """Close a client; one that cannot be is left to the end of the process."""
    with suppress(KafkaError, TimeoutError):
        await asyncio.wait_for(client.stop(), STOP_TIMEOUT_S)
