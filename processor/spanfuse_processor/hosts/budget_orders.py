"""Budgets of a stream deployment, as an operator handles them: orders go where the charges of their scope go, and what became
of them is waited for; accounts are read from the changelog of the scopes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from pydantic import ValidationError

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.scopes.stage import ScopeStage
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import StateError, UnavailableError
from spanfuse_processor.hosts.kafka import client_options, new_producer, start_client
from spanfuse_processor.hosts.reset import stop_client
from spanfuse_processor.hosts.topics import SCOPES_CHANGELOG, SESSIONS_CHANGELOG, partitions_of
from spanfuse_schemas import BudgetOrder, CallBatch, ChargeBatch, Policy
from spanfuse_schemas.budget import Audited
from spanfuse_schemas.topics import AUDIT, CALLS, CHARGES, partition_of

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings


async def give_order(settings: KafkaSettings, order: BudgetOrder, timeout_s: float) -> Audited:
    """Send an order to the worker that holds the accounts of its scope, and wait until it tells what became of it.

    Args:
        timeout_s: how long the worker may take, seconds.

    Raises:
        UnavailableError: if Kafka does not answer, or no worker has told of it in time; it may be carried out later.
    """
    producer = new_producer(settings, linger_ms=0)
    async with _consumer(settings) as consumer:
        try:
            await start_client(producer, settings)
            return await asyncio.wait_for(_given(consumer, producer, order), timeout_s)
        except TimeoutError:
            raise UnavailableError(
                f"no worker has carried the order out within {timeout_s:g} s; are the topics there and a worker running?"
            ) from None
        except KafkaError as error:
            raise UnavailableError(f"Kafka at {settings.brokers}: {error}") from error
        finally:
            await stop_client(producer)


async def _given(consumer: AIOKafkaConsumer, producer: Any, order: BudgetOrder) -> Audited:
    audit = TopicPartition(AUDIT, 0)
    consumer.assign([audit])
    consumer.seek(audit, (await consumer.end_offsets([audit]))[audit])
    kind, _, name = order.scope.partition(":")
    topic, place = (CALLS, name) if kind == "session" else (CHARGES, order.scope)
    orders = CallBatch(orders=(order,)) if kind == "session" else ChargeBatch(orders=(order,))
    partition = partition_of(place, len(await producer.partitions_for(topic)))
    await producer.send_and_wait(topic, orders.to_json(), partition=partition)
    while True:
        record = await consumer.getone()
        found = _audited(record.value)
        if found is not None and found.order.id == order.id:
            return found


def _audited(value: bytes | None) -> Audited | None:
    try:
        return Audited.from_json(value) if value else None
    except ValidationError:
        return None


async def read_audit(settings: KafkaSettings, limit: int) -> list[Audited]:
    """What became of operators' last orders, newest first.

    Raises:
        UnavailableError: if Kafka does not answer.
    """
    found = [audited async for _, value in _records(settings, AUDIT) if (audited := _audited(value)) is not None]
    return sorted(found, key=lambda one: -one.order.at_ns)[:limit]


async def read_accounts(settings: KafkaSettings, policy: Policy, scope: str = "") -> list[dict[str, Any]]:
    """The accounts of the periods that run: of one scope, or of all but sessions; as workers have stored them, a second ago at
    most.

    Raises:
        UnavailableError: if Kafka does not answer.
    """
    from spanfuse_processor.hosts.stream.table import Stored

    if scope.startswith("session:"):
        return await _session_accounts(settings, policy, scope.removeprefix("session:"))
    stage, now_ns = ScopeStage(policy), time.time_ns()
    rows: dict[str, list[dict[str, Any]]] = {}
    async for key, value in _records(settings, SCOPES_CHANGELOG):
        name = key.decode("utf-8", "surrogatepass")
        if scope and name != scope:
            continue
        rows.pop(name, None)
        try:
            state = ScopeState.restore(Stored.unpack(value).snapshot) if value else None
        except StateError:
            continue
        if state is not None and (found := stage.accounts(name, state, now_ns)):
            rows[name] = found
    named = [scope] if scope else [f"{b.scope}:{b.match}" for b in policy.budgets if b.is_of_one]
    for name in named:
        rows.setdefault(name, stage.accounts(name, None, now_ns))
    return [row for found in rows.values() for row in found]


async def _session_accounts(settings: KafkaSettings, policy: Policy, session: str) -> list[dict[str, Any]]:
    from spanfuse_processor.hosts.stream.table import Stored

    state, wanted = SessionState(session), session.encode("utf-8", "surrogatepass")
    async for key, value in _records(settings, SESSIONS_CHANGELOG):
        if key == wanted:
            with suppress(StateError):
                state = SessionState.restore(Stored.unpack(value).snapshot) if value else SessionState(session)
    return Pipeline(policy).accounts(state, time.time_ns())


async def _records(settings: KafkaSettings, topic: str) -> AsyncIterator[tuple[bytes, bytes | None]]:
    """All records of a topic up to its present end, in the order of each partition."""
    tps = [TopicPartition(topic, p) for p in range((await partitions_of(settings)).get(topic, 0))]
    if not tps:
        raise UnavailableError(f"Kafka at {settings.brokers} has no topic {topic}; see: spanfuse topics create")
    async with _consumer(settings) as consumer:
        try:
            consumer.assign(tps)
            await consumer.seek_to_beginning(*tps)
            ends = await consumer.end_offsets(tps)
            while any([await consumer.position(tp) < ends[tp] for tp in tps]):
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    for record in records:
                        yield record.key or b"", record.value
        except KafkaError as error:
            raise UnavailableError(f"Kafka at {settings.brokers}: {error}") from error


@asynccontextmanager
async def _consumer(settings: KafkaSettings) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(**client_options(settings), group_id=None, enable_auto_commit=False)
    try:
        await start_client(consumer, settings)
        yield consumer
    finally:
        await stop_client(consumer)
