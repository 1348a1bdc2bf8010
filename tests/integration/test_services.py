"""The services of the tests are what they promise: real, secured, and restartable without losing data."""

from __future__ import annotations

import asyncio
import ssl
import uuid

import pytest
import redis
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.services.kafka_secure import SecureKafka
from tests.services.kafka_service import KafkaService, answers
from tests.services.redis_server import RedisService

pytestmark = pytest.mark.integration


async def _create(kafka: KafkaService) -> str:
    topic = f"services-{uuid.uuid4().hex}"
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.brokers)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, 1, 1)])
    finally:
        await admin.close()
    return topic


async def _send(kafka: KafkaService, topic: str, value: bytes) -> None:
    async with AIOKafkaProducer(bootstrap_servers=kafka.brokers, max_request_size=2**24) as producer:
        await producer.send_and_wait(topic, value, partition=0)


async def _first(kafka: KafkaService, topic: str) -> bytes:
    async with AIOKafkaConsumer(bootstrap_servers=kafka.brokers, max_partition_fetch_bytes=2**24) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.seek_to_beginning()
        value = (await consumer.getone()).value
    assert value is not None
    return bytes(value)


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_what_kafka_acknowledged_outlives_a_restart_and_a_kill(kafka: KafkaService, end: str) -> None:
    """The address and the data stay; messages of 10 MB pass."""
    if not kafka.managed:
        pytest.skip("the broker of SPANFUSE_TEST_KAFKA is not ours to restart")
    value = bytes(10 * 2**20)
    topic = asyncio.run(_create(kafka))
    asyncio.run(_send(kafka, topic, value))
    if end == "kill":
        kafka.kill()
        assert not answers(kafka.brokers)
        kafka.start()
    else:
        kafka.restart()
    assert asyncio.run(asyncio.wait_for(_first(kafka, topic), 30)) == value


@pytest.mark.parametrize("mechanism", SecureKafka.mechanisms)
def test_the_secured_kafka_lets_in_who_knows_the_password_only(secure_kafka: SecureKafka, mechanism: str) -> None:
    settings = secure_kafka.client_settings(mechanism)
    assert answers(secure_kafka.brokers, **settings)
    assert not answers(secure_kafka.brokers, **{**settings, "sasl_plain_password": "guessed"})


def test_the_secured_kafka_asks_for_tls_and_where_told_for_a_certificate(secure_kafka: SecureKafka) -> None:
    trusting = ssl.create_default_context(cafile=secure_kafka.cafile)
    distrusting = ssl.create_default_context()
    assert answers(secure_kafka.ssl_brokers, security_protocol="SSL", ssl_context=trusting)
    assert not answers(secure_kafka.ssl_brokers, security_protocol="SSL", ssl_context=distrusting)
    assert not answers(secure_kafka.mutual_brokers, security_protocol="SSL", ssl_context=trusting)
    trusting.load_cert_chain(secure_kafka.certfile, secure_kafka.keyfile)
    assert answers(secure_kafka.mutual_brokers, security_protocol="SSL", ssl_context=trusting)


def test_what_redis_acknowledged_outlives_a_restart(redis_service: RedisService) -> None:
    if not redis_service.managed:
        pytest.skip("the server of SPANFUSE_TEST_REDIS is not ours to restart")
    with redis.Redis.from_url(redis_service.url, decode_responses=True) as client:
        client.set("services:kept", "yes")
        redis_service.restart()
        assert client.get("services:kept") == "yes"
