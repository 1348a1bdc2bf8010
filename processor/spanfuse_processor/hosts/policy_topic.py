"""What operators lay over the configuration file of workers, on a topic of one partition that every worker reads."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from aiokafka.errors import KafkaError

from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.hosts.kafka import new_producer, start_client, within
from spanfuse_processor.hosts.overlaid import PolicyOrder
from spanfuse_processor.hosts.topic_tail import From
from spanfuse_schemas.topics import POLICY

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings

FOLLOWED: Final[Mapping[str, tuple[int, From]]] = {POLICY: (1, "beginning")}
"""How it is followed: it is compacted, and the last record holds."""
KEY: Final = b"overlay"
STOP_TIMEOUT_S: Final = 2.0


async def lay_over(settings: KafkaSettings, order: PolicyOrder) -> None:
    """Give an order to all workers.

    Raises:
        UnavailableError: Kafka does not answer.
    """
    producer = new_producer(settings, linger_ms=0)
    try:
        await start_client(producer, settings)
        await producer.send_and_wait(POLICY, order.to_json(), key=KEY)
    except KafkaError as error:
        raise UnavailableError(f"Kafka at {settings.brokers}: {error}") from error
    finally:
        with suppress(KafkaError):
            await within(STOP_TIMEOUT_S, producer.stop())
