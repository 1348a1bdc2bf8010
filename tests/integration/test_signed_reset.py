"""A reset that no worker has a state for, with signed decisions: the Guards obey it all the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from spanfuse import Guard
from spanfuse.testing import block, is_blocked
from spanfuse_schemas.topics import CONTROL
from tests.client.waiting import wait_until
from tests.integration.test_client_kafka import send
from tests.integration.test_signed_control import CONFIG, NEW, signed
from tests.services.kafka_service import KafkaService
from tests.support.hosts import stream
from tests.support.stream import fresh_topics

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


def test_a_reset_of_what_no_worker_knows_releases_guards_that_have_a_key(kafka: KafkaService, tmp_path: Path) -> None:
    """A block that the table has lost still stands in the topic: the order is signed, the tombstone after it cannot be."""
    asyncio.run(fresh_topics(kafka.brokers))
    send(kafka.brokers, CONTROL, signed(block("session:lost", epoch=12)))
    with (
        stream(tmp_path, CONFIG, kafka.brokers) as running,
        Guard(running.guard, mode="enforce", signing_key=NEW) as guard,
    ):
        assert guard.wait_ready(20)
        assert is_blocked(guard, session="lost")
        with pytest.raises(AssertionError, match="nothing is known"):
            running.spanfuse("reset", "session:lost")
        wait_until(lambda: not is_blocked(guard, session="lost"))
        assert guard.counters.unsigned == 0
