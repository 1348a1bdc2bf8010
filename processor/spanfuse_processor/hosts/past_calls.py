"""The calls that workers were sent since a moment, read from their topic."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from pydantic import ValidationError

from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.hosts.dry_run import MAX_CALLS
from spanfuse_processor.hosts.errand import new_consumer
from spanfuse_schemas import Call, CallBatch
from spanfuse_schemas.topics import CALLS

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings


async def past_calls(settings: KafkaSettings, since_ns: int) -> tuple[list[Call], bool]:
    """Calls in the order in which they were sent, `MAX_CALLS` at most, and whether these are all.

    Raises:
        UnavailableError: Kafka does not answer.
    """
    tps = [TopicPartition(CALLS, p) for p in range(settings.partitions)]
    async with new_consumer(settings) as consumer:
        try:
            consumer.assign(tps)
            ends = await consumer.end_offsets(tps)
            starts = await consumer.offsets_for_times(dict.fromkeys(tps, since_ns // 10**6))
            for tp in tps:
                consumer.seek(tp, starts[tp].offset if starts[tp] is not None else ends[tp])
            found: list[tuple[int, tuple[Call, ...]]] = []
            count = 0
            while count <= MAX_CALLS and any([await consumer.position(tp) < ends[tp] for tp in tps]):
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    for record in records:
                        batch = _calls(record.value)
                        found.append((record.timestamp, batch))
                        count += len(batch)
        except KafkaError as error:
            raise UnavailableError(f"Kafka at {settings.brokers}: {error}") from error
    found.sort(key=lambda one: one[0])
    calls = list(chain.from_iterable(batch for _, batch in found))
    return calls[:MAX_CALLS], count <= MAX_CALLS


def _calls(value: bytes | None) -> tuple[Call, ...]:
    try:
        batch: CallBatch = CallBatch.from_json(value or b"")
    except ValidationError:
        return ()
    return batch.calls
