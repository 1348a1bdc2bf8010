"""What a test sees of a Kafka broker, wherever it runs."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Protocol

from aiokafka.admin import AIOKafkaAdminClient


class KafkaService(Protocol):
    """A Kafka broker. All methods block; call them through `asyncio.to_thread` in async code."""

    @property
    def brokers(self) -> str:
        """Bootstrap address, `host:port`."""

    @property
    def managed(self) -> bool:
        """Whether it may be killed and restarted; not so for a broker that the environment names."""

    def kill(self) -> None:
        """End it as a power cut would; its data stay."""

    def start(self) -> None:
        """Start it again on the same address with the same data, and wait until it answers."""

    def restart(self) -> None:
        """Stop it in order and start it again."""

    def stop(self) -> None:
        """End it for good and remove its data."""


class ExternalKafka:
    """A broker that the environment names; it is used, never ended."""

    managed = False

    def __init__(self, brokers: str) -> None:
        self.brokers = brokers

    def start(self) -> None:
        if not answers(self.brokers, timeout_s=10):
            raise RuntimeError(f"no Kafka broker answers at {self.brokers} (SPANFUSE_TEST_KAFKA)")

    def stop(self) -> None:
        """It was there before the tests, and stays."""

    def kill(self) -> None:
        raise RuntimeError(f"{self.brokers} is not the tests' to kill: see KafkaService.managed")

    restart = kill


async def _describe(brokers: str, settings: dict[str, Any]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers, request_timeout_ms=3_000, **settings)
    try:
        await admin.start()
        await admin.describe_cluster()
    finally:
        await admin.close()


def answers(brokers: str, timeout_s: float = 5, **settings: Any) -> bool:
    """Whether a broker answers a metadata request; `settings` are those of aiokafka's clients."""
    outcome: list[bool] = []

    def attempt() -> None:
        try:
            asyncio.run(asyncio.wait_for(_describe(brokers, settings), timeout_s))
        except Exception:
            outcome.append(False)
        else:
            outcome.append(True)

    # A thread of its own, since the caller may be inside an event loop.
    thread = threading.Thread(target=attempt, name="kafka-probe")
    thread.start()
    thread.join()
    return outcome == [True]
