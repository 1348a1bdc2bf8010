"""deploy/kafka/acls.sh on a broker that enforces it: each role can do what it is there for, and nothing else."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import TopicAuthorizationFailedError
from aiokafka.protocol.admin import CreateAclsRequest

from spanfuse import Blocked, Guard
from spanfuse.subscribers.kafka import KafkaSubscriber
from spanfuse_schemas.topics import CALLS, CONTROL, OTLP_SPANS
from tests.services.kafka_secure import SecureKafka
from tests.services.redis_server import RedisService
from tests.support.loops import in_loop
from tests.support.recorded import chat_span, request
from tests.support.stream import WorkerProcess, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

SCRIPT = Path(__file__).parents[2] / "deploy/kafka/acls.sh"
ROLES = ("topics", "worker", "api", "collector", "guard", "replay")
_KINDS = {"--topic": 2, "--group": 3}
_OPERATIONS = {"Read": 3, "Write": 4, "Create": 5, "Describe": 8, "DescribeConfigs": 10}
_LITERAL, _ALLOW = 3, 3


class Guarded(SecureKafka):
    """A broker with an authorizer, and a user for each role; who comes without a password, on loopback, may do everything."""

    def settings(self) -> dict[str, object]:
        users = " ".join(f'user_spanfuse-{role}="{self.password}"' for role in ROLES)
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
        return {
            **super().settings(),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "listener.name.passwords.plain.sasl.jaas.config": f"{plain} required {users};",
        }

    def as_role(self, role: str) -> dict[str, Any]:
        """Settings for aiokafka's clients."""
        return {
            **self.client_settings("PLAIN"),
            "bootstrap_servers": self.brokers,
            "sasl_plain_username": f"spanfuse-{role}",
        }

    def section(self, role: str) -> dict[str, Any]:
        """The section `receivers.kafka`, but for the brokers."""
        return {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "sasl_username": f"spanfuse-{role}",
            "sasl_password": self.password,
            "ssl_cafile": self.cafile,
        }


@pytest.fixture(scope="module")
def broker() -> Iterator[Guarded]:
    """A broker on which the script was run."""
    started = Guarded()
    try:
        started.start()
        asyncio.run(_grant(started, _commands()))
        yield started
    finally:
        started.stop()


def _commands() -> list[str]:
    """The arguments with which the script calls kafka-acls."""
    environment = {**os.environ, "BOOTSTRAP": "unused:9092", "KAFKA_ACLS": "echo"}
    return subprocess.run([SCRIPT], capture_output=True, text=True, check=True, env=environment).stdout.splitlines()


async def _grant(broker: Guarded, lines: list[str]) -> None:
    """Do what the commands say."""
    admin = AIOKafkaAdminClient(bootstrap_servers=f"127.0.0.1:{broker.internal_port}")
    await admin.start()
    for principal, operation, kind, name in (right for line in lines for right in _rights(shlex.split(line))):
        asked = CreateAclsRequest(_KINDS[kind], name, _LITERAL, principal, "*", _OPERATIONS[operation], _ALLOW)
        answer = await admin._send_request(asked)
        assert [code for code, _ in answer.creation_responses] == [0]
    await admin.close()


def _rights(arguments: list[str]) -> Iterator[tuple[str, str, str, str]]:
    """Principal, operation, kind and name of each right that a command of kafka-acls gives."""
    options = list(itertools.pairwise(arguments))
    (principal,) = (value for option, value in options if option == "--allow-principal")
    for _, operation in (found for found in options if found[0] == "--operation"):
        for kind, name in (found for found in options if found[0] in _KINDS):
            yield principal, operation, kind, name


def spanfuse(config: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command, with a configuration file."""
    command = [sys.executable, "-m", "spanfuse_processor", *arguments, "--config", str(config)]
    return subprocess.run(command, capture_output=True, text=True, timeout=90)


def file_of(folder: Path, broker: Guarded, role: str, **more: Any) -> Path:
    """A configuration file for a role."""
    path = folder / f"{role}.yaml"
    kafka = {"brokers": broker.brokers, "partitions": 4, **broker.section(role)}
    path.write_text(json.dumps({"receivers": {"kafka": kafka}, **more}))
    return path


@in_loop
async def test_each_role_can_do_what_it_is_there_for(
    broker: Guarded, redis_service: RedisService, tmp_path: Path
) -> None:
    topics = file_of(tmp_path, broker, "topics")
    for _ in range(2):
        made = await asyncio.to_thread(spanfuse, topics, "topics", "create")
        assert (made.returncode, made.stderr) == (0, "")

    shown = {"extensions": {"readmodel": {"address": f"{redis_service.url}?tenant=acls"}}}
    worker = WorkerProcess(
        tmp_path, broker.brokers, {"service": {"mode": "enforce"}, **shown}, **broker.section("worker")
    )
    worker.start()
    subscriber = KafkaSubscriber(
        broker.brokers, security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_username="spanfuse-guard",
        sasl_password=broker.password, ssl_cafile=broker.cafile,
    )  # fmt: skip
    try:
        await until(lambda: worker.ready, "the worker is up")
        with Guard(subscriber) as guard:
            await _export(broker, [chat_span(n, [("user", "Are we there yet?")], session="acl") for n in range(5)])
            await until(lambda: _refuses(guard, "acl"), "the Guard of role guard refuses the call")

            api = file_of(tmp_path, broker, "api", **shown)
            reset = await asyncio.to_thread(spanfuse, api, "reset", "session:acl")
            assert (reset.returncode, reset.stderr) == (0, "")
            await until(lambda: not _refuses(guard, "acl"), "the Guard hears of the reset by role api")

        looked = await asyncio.to_thread(spanfuse, file_of(tmp_path, broker, "replay"), "doctor", "--topic", OTLP_SPANS)
        assert "authoriz" not in looked.stderr.lower()
        assert "5" in looked.stdout
        assert worker.stop() == 0
    finally:
        worker.kill()


@pytest.mark.parametrize(
    ("role", "topic"),
    [("guard", CONTROL), ("collector", CONTROL), ("replay", OTLP_SPANS), ("api", CONTROL), ("collector", CALLS)],
)
@in_loop
async def test_what_is_not_its_work_is_refused_to_write(broker: Guarded, role: str, topic: str) -> None:
    producer = AIOKafkaProducer(**broker.as_role(role))
    await producer.start()
    try:
        with pytest.raises(TopicAuthorizationFailedError):
            await asyncio.wait_for(producer.send_and_wait(topic, b"{}", partition=0), 30)
    finally:
        await producer.stop()


@pytest.mark.parametrize(("role", "topic"), [("guard", OTLP_SPANS), ("guard", CALLS), ("replay", CONTROL)])
@in_loop
async def test_what_is_not_its_work_is_not_even_described(broker: Guarded, role: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(**broker.as_role(role))
    await admin.start()
    try:
        (described,) = await admin.describe_topics([topic])
        assert described["error_code"] == TopicAuthorizationFailedError.errno
    finally:
        await admin.close()


@in_loop
async def test_who_writes_spans_cannot_read_those_of_others(broker: Guarded) -> None:
    consumer = AIOKafkaConsumer(**broker.as_role("collector"), group_id=None, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(OTLP_SPANS, 0)])
        with pytest.raises(TopicAuthorizationFailedError):
            await asyncio.wait_for(consumer.getone(), 30)
    finally:
        await consumer.stop()


async def _export(broker: Guarded, spans: list[dict[str, Any]]) -> None:
    producer = AIOKafkaProducer(**broker.as_role("collector"))
    await producer.start()
    await producer.send_and_wait(OTLP_SPANS, json.dumps(request(*spans)).encode())
    await producer.stop()


def _refuses(guard: Guard, session: str) -> bool:
    try:
        guard.check(session=session)
    except Blocked:
        return True
    return False
