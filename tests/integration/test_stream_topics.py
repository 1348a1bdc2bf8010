"""`create_topics` on a real broker."""

from __future__ import annotations

import asyncio

import pytest

from spanfuse_processor.config import KafkaSettings
from spanfuse_processor.hosts.topics import SCOPES_CHANGELOG, SESSIONS_CHANGELOG, create_topics, partitions_of
from spanfuse_schemas.topics import CONTROL, TOPICS
from tests.services.kafka_service import KafkaService
from tests.support.stream import PARTITIONS, fresh_topics, settings_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


def test_topics_are_created_once_and_then_found_as_they_should_be(kafka: KafkaService) -> None:
    """The changelog has as many partitions as the calls, control has one; a second run creates and reports nothing."""
    asyncio.run(fresh_topics(kafka.brokers))
    again = asyncio.run(create_topics(settings_of(kafka.brokers)))
    assert {r.name for r in again} == {*(t.name for t in TOPICS), SESSIONS_CHANGELOG, SCOPES_CHANGELOG}
    assert not any(r.created or r.differences for r in again)
    partitions = asyncio.run(partitions_of(settings_of(kafka.brokers)))
    assert partitions[CONTROL] == 1
    assert partitions[SESSIONS_CHANGELOG] == partitions[SCOPES_CHANGELOG] == PARTITIONS


def test_differences_are_reported_and_nothing_is_corrected(kafka: KafkaService) -> None:
    asyncio.run(fresh_topics(kafka.brokers))
    wider = KafkaSettings(brokers=kafka.brokers, partitions=PARTITIONS + 1)
    for _ in range(2):
        reports = {r.name: r for r in asyncio.run(create_topics(wider))}
        assert reports[SESSIONS_CHANGELOG].differences == (f"{PARTITIONS} partitions instead of {PARTITIONS + 1}",)
        assert reports[CONTROL].differences == ()
