"""An operator's errand to a stream deployment: an order goes where the state of its key lives, and its answer is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.hosts.kafka import client_options, new_producer, start_client
from spanfuse_schemas import CallBatch, ChargeBatch
from spanfuse_schemas.topics import CALLS, CHARGES, partition_of

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings

STOP_TIMEOUT_S: Final = 5.0
"""How long a client may take to close, seconds."""

Answer = TypeVar("Answer")


async def order_of_worker(
    settings: KafkaSettings,
    key: str,
    order: CallBatch | ChargeBatch,
    topic: str,
    answer: Callable[[bytes | None], Answer | None],
    timeout_s: float,
    what: str,
) -> Answer:
    """Send an order to the worker that holds the state of a key, and wait for the record that answers it.

    Args:
        key: whose state, such as `session:checkout-42` or `agent:research`: that of a session is where its calls go, and its
            order a `CallBatch`; any other is where its charges go, and its order a `ChargeBatch`.
        topic: where it is answered, of one partition.
        answer: makes an answer of a record's value; none: it answers something else.
        timeout_s: how long the worker may take, seconds.
        what: what was not done if it takes longer.

    Raises:
        UnavailableError: if Kafka does not answer, or no worker has in time; the order may be carried out later.
    """
    async with new_consumer(settings) as consumer:
        producer = new_producer(settings, linger_ms=0)
        try:
            await start_client(producer, settings)
            work = _answered(consumer, producer, key, order, TopicPartition(topic, 0), answer)
            return await asyncio.wait_for(work, timeout_s)
        except TimeoutError:
            raise UnavailableError(
                f"no worker has {what} within {timeout_s:g} s; are the topics there and a worker running?"
            ) from None
        except KafkaError as error:
            raise UnavailableError(f"Kafka at {settings.brokers}: {error}") from error
        finally:
            await _stop(producer)


async def _answered(
    consumer: AIOKafkaConsumer,
    producer: AIOKafkaProducer,
    key: str,
    order: CallBatch | ChargeBatch,
    answers: TopicPartition,
    answer: Callable[[bytes | None], Answer | None],
) -> Answer:
    consumer.assign([answers])
    consumer.seek(answers, (await consumer.end_offsets([answers]))[answers])
    topic, place = (CALLS, key.removeprefix("session:")) if isinstance(order, CallBatch) else (CHARGES, key)
    partition = partition_of(place, len(await producer.partitions_for(topic)))
    await producer.send_and_wait(topic, order.to_json(), partition=partition)
    while True:
        found = answer((await consumer.getone()).value)
        if found is not None:
            return found


@asynccontextmanager
async def new_consumer(
    settings: KafkaSettings, *, partition_bytes: int = 1024 * 1024
) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer of no group, started, and closed at the end.

    Args:
        partition_bytes: what a broker gives of a partition at a time; a single message may be larger. Default: that of Kafka.

    Raises:
        UnavailableError: if Kafka does not answer.
    """
    consumer = AIOKafkaConsumer(
        **client_options(settings),
        group_id=None,
        enable_auto_commit=False,
        max_partition_fetch_bytes=partition_bytes,
    )
    try:
        await start_client(consumer, settings)
        yield consumer
    finally:
        await _stop(consumer)


async def _stop(client: AIOKafkaConsumer | AIOKafkaProducer) -> None:
    """Close a client; one that cannot be is left to the end of the process."""
    with suppress(KafkaError, TimeoutError):
        await asyncio.wait_for(client.stop(), STOP_TIMEOUT_S)
