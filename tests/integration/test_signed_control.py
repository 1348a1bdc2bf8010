"""Both hosts sign what they tell, over SSE and a real broker; a Guard with the key obeys it, and nothing that others write."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from spanfuse import Guard
from spanfuse.subscribers.kafka import KafkaSubscriber
from spanfuse.testing import block, closed, is_blocked
from spanfuse_schemas import Decision
from spanfuse_schemas.signing import Keyring
from tests.client.waiting import wait_until
from tests.integration.test_client_kafka import create, send
from tests.services.kafka_service import KafkaService
from tests.support.hosts import Deployment, embedded, stream
from tests.support.recorded import START_NS, chat_span, request
from tests.support.stream import fresh_topics

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

OLD, NEW = "the key of last year", "the key of this year"
CONFIG: dict[str, Any] = {
    "service": {"mode": "enforce", "signing_key": [NEW, OLD]},
    "detectors": {"limits": {"max_steps": 1}},
}


def signed(record: Decision, key: str = NEW) -> tuple[bytes, bytes]:
    return record.key.encode(), Keyring([key]).signed(record.to_json())


@pytest.fixture
def control(kafka: KafkaService) -> str:
    """A control topic of the test's own."""
    topic = f"control-{uuid.uuid4().hex[:8]}"
    create(kafka.brokers, topic)
    return topic


@pytest.fixture(scope="module", params=["embedded", "stream"])
def deployment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "embedded":
        with embedded(folder, CONFIG) as running:
            yield running
    else:
        kafka: KafkaService = request.getfixturevalue("kafka")
        asyncio.run(fresh_topics(kafka.brokers))
        with stream(folder, CONFIG, kafka.brokers) as running:
            yield running


def step(deployment: Deployment, session: str) -> None:
    """A model call, which reaches the cap of its session."""
    at_s = (time.time_ns() - START_NS) / 1e9
    body = json.dumps(request(chat_span(1, [("user", "Hello.")], session=session, at=at_s)))
    sent = httpx.post(
        f"{deployment.otlp}/v1/traces", content=body, headers={"Content-Type": "application/json"}, timeout=20
    )
    assert sent.status_code == 200


def test_what_a_host_decides_is_obeyed_with_the_key_and_with_none_and_ignored_with_another(
    deployment: Deployment,
) -> None:
    name = f"capped-{uuid.uuid4().hex[:6]}"
    keys: tuple[Any, ...] = (NEW, [OLD, NEW], (), "the key of somebody else")
    guards = [Guard(deployment.guard, mode="enforce", signing_key=key) for key in keys]
    *able, stranger = guards
    assert all(guard.wait_ready(20) for guard in guards)
    step(deployment, name)
    wait_until(lambda: all(is_blocked(guard, session=name) for guard in able))
    wait_until(lambda: stranger.counters.unsigned > 0)
    assert is_blocked(stranger, session=name) is None
    wait_until(lambda: all(guard._feed.policy for guard in able), what="the policy is signed as well")
    assert stranger._feed.policy is None
    deployment.spanfuse("reset", f"session:{name}")
    wait_until(lambda: not any(is_blocked(guard, session=name) for guard in guards))
    assert [guard.counters.unsigned for guard in able] == [0, 0, 0]
    for guard in guards:
        guard.close()


def test_a_guard_that_starts_late_obeys_the_signed_present(deployment: Deployment) -> None:
    name = f"late-{uuid.uuid4().hex[:6]}"
    with Guard(deployment.guard) as early:
        step(deployment, name)
        wait_until(lambda: any(d.key == f"session:{name}" for d in early.decisions()))
    with Guard(deployment.guard, mode="enforce", signing_key=NEW) as late:
        assert late.wait_ready(20)
        assert is_blocked(late, session=name)


def test_what_others_write_to_the_topic_is_ignored_and_counted(kafka: KafkaService, control: str) -> None:
    held, forged = block("session:held"), block("session:forged")
    tampered = json.loads(signed(block("session:else"))[1]) | {"key": "session:forged"}
    send(kafka.brokers, control, signed(held), forged, (b"session:forged", json.dumps(tampered).encode()))
    with Guard(KafkaSubscriber(kafka.brokers, topic=control), mode="enforce", signing_key=NEW) as guard:
        assert guard.wait_ready(20)
        assert (is_blocked(guard, session="forged"), guard.counters.unsigned) == (None, 2)
        send(kafka.brokers, control, closed("session:held"), (b"session:held", None), signed(block("session:now")))
        wait_until(lambda: is_blocked(guard, session="now"))
        wait_until(lambda: guard.counters.unsigned == 4, what="a forged release, and a tombstone")
        assert is_blocked(guard, session="held"), "neither a forged release nor a tombstone lets it go"
        send(kafka.brokers, control, signed(closed("session:held")), (b"session:held", None))
        wait_until(lambda: not is_blocked(guard, session="held"))


def test_keys_are_rotated_without_a_gap(kafka: KafkaService, control: str) -> None:
    """Guards get the new key, then the processor; the old one goes once nothing that it has signed stands any more."""
    send(kafka.brokers, control, signed(block("session:old"), OLD))
    with Guard(KafkaSubscriber(kafka.brokers, topic=control), mode="enforce", signing_key=f"{NEW},{OLD}") as during:
        assert during.wait_ready(20)
        send(kafka.brokers, control, signed(block("session:new")))
        wait_until(lambda: is_blocked(during, session="new"))
        assert is_blocked(during, session="old")
    with Guard(KafkaSubscriber(kafka.brokers, topic=control), mode="enforce", signing_key=NEW) as after:
        assert after.wait_ready(20)
        assert is_blocked(after, session="new")
        assert (is_blocked(after, session="old"), after.counters.unsigned) == (None, 1)
