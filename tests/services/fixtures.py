"""One Kafka, one Kafka with security and one Redis for all tests of a run, each started when first asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services.choose import start_kafka, start_redis, start_secure_kafka
from tests.services.kafka_secure import SecureKafka
from tests.services.kafka_service import KafkaService
from tests.services.redis_server import RedisService


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaService]:
    """A real broker. Topics are shared by all tests: use names of your own. Who kills it starts it again."""
    service = start_kafka()
    yield service
    service.stop()


@pytest.fixture(scope="session")
def secure_kafka() -> Iterator[SecureKafka]:
    """A real broker behind TLS, passwords and client certificates."""
    service = start_secure_kafka()
    yield service
    service.stop()


@pytest.fixture(scope="session")
def redis_service() -> Iterator[RedisService]:
    """A real Redis. Keys are shared by all tests: use a prefix of your own."""
    service = start_redis()
    yield service
    service.stop()
