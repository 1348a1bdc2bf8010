"""Where Kafka and Redis come from: an address in the environment, else Docker, else a local process."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from tests.services import docker_services
from tests.services.kafka_broker import LocalKafka
from tests.services.kafka_secure import SecureKafka
from tests.services.kafka_service import ExternalKafka, KafkaService
from tests.services.redis_server import ExternalRedis, LocalRedis, RedisService

Service = TypeVar("Service", KafkaService, RedisService, SecureKafka)

_docker = cache(docker_services.daemon_answers)


def _started(service: Service) -> Service:
    try:
        service.start()
    except BaseException:
        service.stop()
        raise
    return service


def _first_of(external: Service | None, in_docker: Callable[[], Service], local: Callable[[], Service]) -> Service:
    if external is not None:
        return _started(external)
    if _docker():
        try:
            return _started(in_docker())
        except Exception as error:  # no image and no network, no rights, …: a local process is as good
            warnings.warn(f"Docker answers but could not run it, so a local process does: {error}", stacklevel=2)
    return _started(local())


def start_kafka() -> KafkaService:
    """A running broker with a PLAINTEXT listener; end it with `stop()`."""
    address = os.environ.get("SPANFUSE_TEST_KAFKA")
    external: KafkaService | None = ExternalKafka(address) if address else None
    in_docker: Callable[[], KafkaService] = docker_services.DockerKafka
    return _first_of(external, in_docker, LocalKafka)


def start_secure_kafka() -> SecureKafka:
    """A running broker with TLS, passwords and client certificates, always a local process; end it with `stop()`."""
    return _started(SecureKafka())


def start_redis() -> RedisService:
    """A running Redis; end it with `stop()`."""
    address = os.environ.get("SPANFUSE_TEST_REDIS")
    external: RedisService | None = ExternalRedis(address) if address else None
    in_docker: Callable[[], RedisService] = docker_services.DockerRedis
    return _first_of(external, in_docker, LocalRedis)
