"""Decisions from the control topic of a real broker, which is away at first, is killed and comes back."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from spanfuse import Guard
from spanfuse.subscribers import kafka as subject
from spanfuse.subscribers.kafka import KafkaSubscriber
from spanfuse.testing import block, closed, is_blocked, nudge
from spanfuse_schemas import Decision
from tests.client.waiting import wait_until
from tests.services.kafka_secure import SecureKafka
from tests.services.kafka_service import KafkaService

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


@pytest.fixture
def control(kafka: KafkaService) -> str:
    """A control topic of the test's own, compacted, with two partitions."""
    topic = f"control-{uuid.uuid4().hex[:8]}"
    create(kafka.brokers, topic)
    return topic


def create(brokers: str, topic: str, **settings: Any) -> None:
    async def run() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=brokers, **settings)
        await admin.start()
        try:
            config = {"cleanup.policy": "compact"}
            await admin.create_topics([NewTopic(topic, 2, 1, topic_configs=config)])
        finally:
            await admin.close()

    asyncio.run(asyncio.wait_for(run(), 60))


def send(brokers: str, topic: str, *records: Decision | tuple[bytes, bytes | None], **settings: Any) -> None:
    """Write decisions, or raw (key, value) pairs."""
    pairs: Sequence[tuple[bytes, bytes | None]] = [
        (r.key.encode(), r.to_json()) if isinstance(r, Decision) else r for r in records
    ]

    async def run() -> None:
        async with AIOKafkaProducer(bootstrap_servers=brokers, **settings) as producer:
            for key, value in pairs:
                await producer.send_and_wait(topic, value, key=key)

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.fixture
def mortal(kafka: KafkaService) -> KafkaService:
    """The broker, where it may be killed."""
    if not kafka.managed:
        pytest.skip("the broker of SPANFUSE_TEST_KAFKA is not ours to kill")
    return kafka


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notice a dead broker within a second or two."""
    monkeypatch.setattr(subject, "HEARTBEAT_S", 0.5)
    monkeypatch.setattr(subject, "ANSWER_S", 2.0)


def test_the_topic_is_read_from_its_beginning_and_followed(kafka: KafkaService, control: str) -> None:
    send(
        kafka.brokers,
        control,
        block("session:old"),
        block("session:reset"),
        closed("session:reset"),
        block("session:forgotten"),
        (b"session:forgotten", None),
        (b"session:odd", b"not json"),
        nudge("agent:a", "Stop."),
    )
    subscriber = KafkaSubscriber(kafka.brokers, topic=control)
    with Guard(subscriber, mode="enforce") as guard:
        assert guard.wait_ready(20)
        assert {d.key for d in guard.decisions()} == {"session:old", "agent:a"}
        assert subscriber.undecodable == 1
        begin = time.monotonic()
        send(kafka.brokers, control, block("session:new"))
        wait_until(lambda: is_blocked(guard, session="new"))
        assert time.monotonic() - begin < 5
        send(kafka.brokers, control, closed("session:new"), (b"session:old", None))
        wait_until(lambda: not is_blocked(guard, session="new") and not is_blocked(guard, session="old"))
        assert guard.state == "ready"


def test_an_empty_topic_is_ready_at_once(kafka: KafkaService, control: str) -> None:
    with Guard(KafkaSubscriber(kafka.brokers, topic=control)) as guard:
        assert guard.wait_ready(20)
        assert guard.decisions() == []


def test_a_missing_topic_is_waited_for_and_not_made(kafka: KafkaService) -> None:
    topic = f"later-{uuid.uuid4().hex[:8]}"
    subscriber = KafkaSubscriber(kafka.brokers, topic=topic)
    with Guard(subscriber) as guard:
        wait_until(lambda: "spanfuse topics create" in subscriber.last_error)
        create(kafka.brokers, topic)
        assert guard.wait_ready(30)


@pytest.mark.usefixtures("impatient")
def test_a_quiet_topic_gives_signs_of_life(kafka: KafkaService, control: str) -> None:
    with Guard(KafkaSubscriber(kafka.brokers, topic=control), staleness_s=5) as guard:
        assert guard.wait_ready(20)
        begin = guard._feed._last_sign_s
        wait_until(lambda: guard._feed._last_sign_s > begin + 2)
        assert guard.state == "ready"


@pytest.mark.usefixtures("impatient")
def test_a_broker_that_is_killed_leaves_known_blocks_and_is_followed_again(mortal: KafkaService, control: str) -> None:
    send(mortal.brokers, control, block("session:old"), block("session:held"))
    subscriber = KafkaSubscriber(mortal.brokers, topic=control)
    with Guard(subscriber, mode="enforce", staleness_s=3, on_unavailable={"team": "closed"}) as guard:
        assert guard.wait_ready(20)
        assert is_blocked(guard, team="t") is None
        mortal.kill()
        try:
            wait_until(lambda: guard.state == "stale", 30)
            assert is_blocked(guard, session="old")
            assert is_blocked(guard, session="unknown") is None
            refusal = is_blocked(guard, team="t")
            assert refusal is not None
            assert refusal.rule == "unavailable"
            wait_until(lambda: subscriber.state == "connecting", 30)
        finally:
            mortal.start()
        send(mortal.brokers, control, closed("session:old"), block("session:new"))
        wait_until(lambda: is_blocked(guard, session="new"), 40)
        assert is_blocked(guard, session="old") is None
        assert is_blocked(guard, session="held")
        wait_until(lambda: guard.state == "ready", 10)


@pytest.mark.usefixtures("impatient")
def test_a_broker_that_is_away_at_the_start_is_found_when_it_comes(
    mortal: KafkaService, control: str, caplog: pytest.LogCaptureFixture
) -> None:
    send(mortal.brokers, control, block("session:s"))
    mortal.kill()
    subscriber = KafkaSubscriber(mortal.brokers, topic=control)
    with Guard(subscriber, mode="enforce") as guard:
        try:
            assert is_blocked(guard, session="s") is None, "the check does not wait for the broker"
            wait_until(lambda: subscriber.reconnects >= 2, 30)
            assert guard.state == "connecting"
            told = [r.name for r in caplog.records if r.levelno >= logging.WARNING]
            ours = [name for name in told if name != "aiokafka.producer.sender"]  # that of `send`, as the broker died
            assert ours == ["spanfuse"], "one line an outage"
        finally:
            mortal.start()
        assert guard.wait_ready(40)
        assert is_blocked(guard, session="s")


def sockets() -> int:
    gc.collect()
    links = [os.path.join("/proc/self/fd", fd) for fd in os.listdir("/proc/self/fd")]
    return sum(os.path.lexists(link) and os.readlink(link).startswith("socket:") for link in links)


@pytest.mark.parametrize("moment", ["followed", "connecting", "at once"])
def test_starting_and_closing_leaks_no_thread_and_no_socket(kafka: KafkaService, control: str, moment: str) -> None:
    """A hundred times, at whatever moment."""
    send(kafka.brokers, control, block("session:a"), block("session:b"))
    subscriber = KafkaSubscriber(kafka.brokers, topic=control)
    guard = Guard(subscriber)
    before, slowest = sockets(), 0.0
    for _ in range(100):
        guard.start()
        if moment == "followed":
            assert guard.wait_ready(20)
        elif moment == "connecting":
            wait_until(lambda: subscriber._running)
        began = time.monotonic()
        guard.close()
        slowest = max(slowest, time.monotonic() - began)
    assert slowest < 3
    wait_until(lambda: not [t for t in threading.enumerate() if t.name.startswith("spanfuse")])
    wait_until(lambda: sockets() <= before)


def test_closing_is_prompt_while_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        guard = Guard(KafkaSubscriber(f"127.0.0.1:{mute.getsockname()[1]}"))
        guard.start()
        mute.settimeout(10)
        held, _ = mute.accept()
        begin = time.monotonic()
        guard.close()
        assert time.monotonic() - begin < 5
        held.close()


def test_a_forked_child_has_a_consumer_of_its_own(kafka: KafkaService, control: str) -> None:
    guard = Guard(KafkaSubscriber(kafka.brokers, topic=control), mode="enforce")
    assert guard.wait_ready(20)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            assert guard.wait_ready(20)
            wait_until(lambda: is_blocked(guard, session="new"), 20)
            guard.close()
            code = 0
        finally:
            os._exit(code)
    send(kafka.brokers, control, block("session:new"))
    wait_until(lambda: is_blocked(guard, session="new"))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    guard.close()


@pytest.mark.parametrize("mechanism", SecureKafka.mechanisms)
def test_passwords_over_tls_by_keyword(secure_kafka: SecureKafka, mechanism: str) -> None:
    topic = f"control-{uuid.uuid4().hex[:8]}"
    create(secure_kafka.brokers, topic, **secure_kafka.client_settings())
    send(secure_kafka.brokers, topic, block("session:s"), **secure_kafka.client_settings())
    subscriber = KafkaSubscriber(
        secure_kafka.brokers,
        topic=topic,
        security_protocol="SASL_SSL",
        sasl_mechanism=mechanism,
        sasl_username=secure_kafka.user,
        sasl_password=secure_kafka.password,
        ssl_cafile=secure_kafka.cafile,
    )
    with Guard(subscriber, mode="enforce") as guard:
        assert guard.wait_ready(30)
        assert is_blocked(guard, session="s")


def test_passwords_over_tls_by_environment(secure_kafka: SecureKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = f"control-{uuid.uuid4().hex[:8]}"
    create(secure_kafka.brokers, topic, **secure_kafka.client_settings())
    settings = {
        "BROKERS": secure_kafka.brokers,
        "SASL_MECHANISM": "SCRAM-SHA-256",
        "SASL_USERNAME": secure_kafka.user,
        "SASL_PASSWORD": secure_kafka.password,
        "SSL_CAFILE": secure_kafka.cafile,
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"SPANFUSE_KAFKA_{name}", value)
    with Guard(KafkaSubscriber(topic=topic)) as guard:
        assert guard.wait_ready(30)


def test_client_certificates(secure_kafka: SecureKafka) -> None:
    topic = f"control-{uuid.uuid4().hex[:8]}"
    create(secure_kafka.brokers, topic, **secure_kafka.client_settings())
    subscriber = KafkaSubscriber(
        secure_kafka.mutual_brokers,
        topic=topic,
        security_protocol="SSL",
        ssl_cafile=secure_kafka.cafile,
        ssl_certfile=secure_kafka.certfile,
        ssl_keyfile=secure_kafka.keyfile,
    )
    with Guard(subscriber) as guard:
        assert guard.wait_ready(30)


def test_a_wrong_password_is_said_without_the_password(
    secure_kafka: SecureKafka, caplog: pytest.LogCaptureFixture
) -> None:
    subscriber = KafkaSubscriber(
        secure_kafka.brokers,
        security_protocol="SASL_SSL",
        sasl_username=secure_kafka.user,
        sasl_password="battery-staple",
        ssl_cafile=secure_kafka.cafile,
    )
    with Guard(subscriber) as guard:
        # A broker that is slow to answer at first is told as such, until it has looked at the password.
        wait_until(lambda: "uthentication failed" in subscriber.last_error, 60)
        assert guard.state == "connecting"
    said = caplog.text + subscriber.last_error + repr(subscriber.connection)
    assert "battery-staple" not in said
