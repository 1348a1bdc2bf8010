"""Workers as processes on a real broker, and what they have made of their input: read from the topics, by identity."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from spanfuse_processor.config import KafkaSettings
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.scopes.stage import ScopeStage
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.hosts.stream.table import Stored
from spanfuse_processor.hosts.topics import APP_ID, SCOPES_CHANGELOG, SESSIONS_CHANGELOG, create_topics
from spanfuse_schemas import POLICY_KEY, CallBatch, Charge, ChargeBatch, Decision, Detection, Policy
from spanfuse_schemas.topics import CALLS, CHARGES, CONTROL, DEAD_LETTER, DETECTIONS, OTLP_SPANS, TOPICS
from tests.support.hosts import any_port

PARTITIONS = 4


def settings_of(brokers: str, **fields: Any) -> KafkaSettings:
    """Settings for a broker of the tests."""
    return KafkaSettings(brokers=brokers, partitions=PARTITIONS, **fields)


async def until(
    condition: Callable[[], Awaitable[bool] | bool], what: str, timeout_s: float = 60, every_s: float = 0.1
) -> None:
    """Return once the condition holds; TimeoutError after `timeout_s` seconds."""
    end = time.monotonic() + timeout_s
    while True:
        found = condition()
        if await found if isinstance(found, Awaitable) else found:
            return
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        await asyncio.sleep(every_s)


async def fresh_topics(brokers: str) -> None:
    """Empty topics, and a consumer group that has read nothing."""
    ours = {*(t.name for t in TOPICS), SESSIONS_CHANGELOG, SCOPES_CHANGELOG}
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
    await admin.start()
    try:
        old = [name for name in await admin.list_topics() if name in ours]
        if old:
            await admin.delete_topics(old)
        await until(lambda: _gone(admin, ours), "topics are deleted, and what was committed of them")
    finally:
        await admin.close()
    await create_topics(settings_of(brokers))


async def _gone(admin: AIOKafkaAdminClient, names: set[str]) -> bool:
    if names & set(await admin.list_topics()):
        return False
    try:
        committed = await admin.list_consumer_group_offsets(APP_ID)
    except KafkaError:  # a fresh broker makes its offsets topic when first asked
        return False
    return not any(o.offset >= 0 for o in committed.values())


class WorkerProcess:
    """`spanfuse worker` as a process.

    Args:
        config: the configuration file's content; `receivers.kafka` is filled in.
    """

    def __init__(self, folder: Path, brokers: str, config: dict[str, Any] | None = None, **kafka: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        content = config or {}
        any_port(content)
        receivers = content.setdefault("receivers", {})
        receivers["kafka"] = {"brokers": brokers, "partitions": PARTITIONS, **kafka}
        self._config = folder / "worker.yaml"
        self._config.write_text(json.dumps(content))  # JSON is YAML
        self.log = folder / "worker.log"
        self._child: subprocess.Popen[bytes] | None = None
        self._seen = 0

    def start(self) -> None:
        """Start it."""
        self._seen = len(self.output())
        command = [sys.executable, "-m", "spanfuse_processor", "worker", "--config", str(self._config)]
        with self.log.open("ab") as out:
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ}
            )

    def output(self) -> str:
        """All that it has printed."""
        return self.log.read_text() if self.log.exists() else ""

    @property
    def ready(self) -> bool:
        """Whether the present process has said that it is up."""
        if self._child is None or self._child.poll() is not None:
            raise RuntimeError(f"the worker has ended:\n{self.output()[-3000:]}")
        return "worker is up" in self.output()[self._seen :]

    @property
    def child(self) -> subprocess.Popen[bytes]:
        """The present process."""
        assert self._child is not None
        return self._child

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(signal.SIGKILL)
            self._child.wait(10)

    def stop(self, timeout_s: float = 12) -> int:
        """End it in order.

        Returns:
            Its exit code.
        """
        self.child.terminate()
        return self.child.wait(timeout_s)


@dataclass
class Totals:
    """What a run led to; equal for two runs if nothing was lost or counted twice."""

    decisions: dict[tuple[str, int], str] = field(default_factory=dict)
    """(key, epoch) → the decision."""
    detections: dict[str, str] = field(default_factory=dict)
    """Id → the detection."""
    charges: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Scope → calls and nano-dollars."""
    sessions: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Session → calls, nano-dollars and epoch."""
    scopes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Scope → what adding up in any order gives; see `summed`."""
    found: dict[str, set[tuple[str, str, str]]] = field(default_factory=dict)
    """Scope → rule, action and session of what was said of it. Charges of several partitions meet in no fixed order, so when
    and at which numbers a rule fires may differ from run to run; that it fires must not."""
    standing: dict[str, str] = field(default_factory=dict)
    """Scope → rule of what stands against it in the end."""


def expected(batches: Iterable[CallBatch], policy: Policy) -> Totals:
    """One clean pass of the core over the same batches."""
    pipeline, states, totals = Pipeline(policy), dict[str, SessionState](), Totals()
    stage, scopes = ScopeStage(policy), dict[str, ScopeState]()
    for offset, batch in enumerate(batches):
        out = pipeline.process(batch, lambda s: states.setdefault(s, SessionState(s)), source="expected", offset=offset)
        second = stage.process(out.charges, lambda s: scopes.setdefault(s, ScopeState(s)))
        _add(totals, out.decisions + second.decisions, out.detections + second.detections, out.charges)
    totals.scopes = {key: summed(state) for key, state in scopes.items()}
    totals.sessions = {s: (state.calls, state.cost_nano_usd, state.epoch) for s, state in states.items()}
    return totals


def summed(state: ScopeState) -> dict[str, Any]:
    """What does not depend on the order in which charges of several sources came."""
    names = ("calls", "cost_nano_usd", "input_tokens", "failures", "sessions", "loops", "lengths", "spends", "last_ns")
    accounts = state.budgets.sums if state.budgets is not None else {}
    return {name: getattr(state, name) for name in names} | {"members": state.active.count, "accounts": accounts}


def _add(
    totals: Totals, decisions: Iterable[Decision], detections: Iterable[Detection], charges: Iterable[Charge]
) -> None:
    for decision in decisions:
        if not decision.key.startswith("session:"):
            totals.standing.pop(decision.key, None)
            if decision.action != "allow":
                totals.standing[decision.key] = decision.rule
            continue
        told = totals.decisions.setdefault((decision.key, decision.epoch), decision.to_json().decode())
        assert told == decision.to_json().decode(), "one epoch, two decisions"
    for detection in detections:
        if detection.scope:
            said = (detection.rule, detection.action, detection.session)
            totals.found.setdefault(detection.scope, set()).add(said)
            continue
        told = totals.detections.setdefault(detection.id, detection.to_json().decode())
        assert told == detection.to_json().decode(), "one id, two detections"
    for charge in charges:
        calls, money = totals.charges.get(charge.scope, (0, 0))
        totals.charges[charge.scope] = (calls + charge.calls, money + charge.cost_nano_usd)


async def read_topic(brokers: str, topic: str, **options: Any) -> list[ConsumerRecord]:
    """All records of a topic, by partition and offset."""
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers, **options)
    consumer = AIOKafkaConsumer(bootstrap_servers=brokers, group_id=None, enable_auto_commit=False, **options)
    await asyncio.gather(admin.start(), consumer.start())
    try:
        described = await admin.describe_topics([topic])
        tps = [TopicPartition(topic, p) for p in range(len(described[0]["partitions"]))]
        consumer.assign(tps)
        await consumer.seek_to_beginning(*tps)
        ends = await consumer.end_offsets(tps)
        found: list[ConsumerRecord] = []
        while any([await consumer.position(tp) < ends[tp] for tp in tps]):
            for records in (await consumer.getmany(timeout_ms=200)).values():
                found += records
        return sorted(found, key=lambda r: (r.partition, r.offset))
    finally:
        await asyncio.gather(admin.close(), consumer.stop())


async def totals(brokers: str, **options: Any) -> Totals:
    """What the topics tell; charges as their reader has to take them: what is not above the last of its source is dropped."""
    found = Totals()
    told = [r for r in await read_topic(brokers, CONTROL, **options) if r.key != POLICY_KEY.encode()]
    decisions = [Decision.from_json(record.value) for record in told if record.value]
    detections = [Detection.from_json(r.value) for r in await read_topic(brokers, DETECTIONS, **options)]
    last: dict[tuple[str, str], int] = {}
    charges = []
    for record in await read_topic(brokers, CHARGES, **options):
        for charge in ChargeBatch.from_json(record.value).charges:
            if charge.offset > last.get((charge.scope, charge.source), -1):
                last[charge.scope, charge.source] = charge.offset
                charges.append(charge)
    _add(found, decisions, detections, charges)
    for record in await read_topic(brokers, SESSIONS_CHANGELOG, **options):
        session = record.key.decode()
        found.sessions.pop(session, None)
        if record.value:
            state = SessionState.restore(Stored.unpack(record.value).snapshot)
            found.sessions[session] = (state.calls, state.cost_nano_usd, state.epoch)
    for record in await read_topic(brokers, SCOPES_CHANGELOG, **options):
        scope = record.key.decode()
        found.scopes.pop(scope, None)
        if record.value:
            found.scopes[scope] = summed(ScopeState.restore(Stored.unpack(record.value).snapshot))
    return found


async def caught_up(brokers: str, *topics: str, **options: Any) -> bool:
    """Whether the workers have committed all there is in these topics."""
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers, **options)
    consumer = AIOKafkaConsumer(bootstrap_servers=brokers, group_id=None, **options)
    await asyncio.gather(admin.start(), consumer.start())
    try:
        tps = [TopicPartition(t, p) for t in topics for p in range(PARTITIONS)]
        ends = await consumer.end_offsets(tps)
        committed = await admin.list_consumer_group_offsets(APP_ID, partitions=tps)
        return all(ends[tp] == 0 or (tp in committed and committed[tp].offset >= ends[tp]) for tp in tps)
    except KafkaError:
        return False
    finally:
        await asyncio.gather(admin.close(), consumer.stop())


async def committed(brokers: str, topic: str) -> int:
    """How many messages of a topic the workers have committed."""
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
    await admin.start()
    try:
        found = await admin.list_consumer_group_offsets(APP_ID)
        return sum(o.offset for tp, o in found.items() if tp.topic == topic and o.offset > 0)
    finally:
        await admin.close()


async def abandoned(brokers: str) -> bool:
    """Whether the group of the workers has no members."""
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
    await admin.start()
    try:
        (response,) = await admin.describe_consumer_groups([APP_ID])
        return bool(response.groups[0][2] == "Empty")
    finally:
        await admin.close()


async def settled(brokers: str, timeout_s: float = 90, **options: Any) -> None:
    """Wait until both hops have done and committed everything."""
    await until(lambda: caught_up(brokers, OTLP_SPANS, **options), "ingest catches up", timeout_s, 0.3)
    await until(lambda: caught_up(brokers, CALLS, **options), "detection catches up", timeout_s, 0.3)
    await until(lambda: caught_up(brokers, CHARGES, **options), "what it charges is added up", timeout_s, 0.3)


async def send(
    brokers: str, topic: str, values: Iterable[tuple[int, bytes]], *, pause_s: float = 0, **options: Any
) -> None:
    """Produce (partition, value) in order, and wait for the acknowledgements."""
    producer = AIOKafkaProducer(bootstrap_servers=brokers, **{"max_request_size": 15 * 1024 * 1024, **options})
    await producer.start()
    try:
        acks = []
        for partition, value in values:
            acks.append(await producer.send(topic, value, partition=partition))
            if pause_s:
                await asyncio.sleep(pause_s)
        await asyncio.gather(*acks)
    finally:
        await producer.stop()


__all__ = [
    "CALLS", "CONTROL", "DEAD_LETTER", "DETECTIONS", "OTLP_SPANS", "PARTITIONS", "Totals", "WorkerProcess", "abandoned",
    "caught_up", "committed", "expected", "fresh_topics", "read_topic", "send", "settings_of", "settled", "totals", "until",
]  # fmt: skip
