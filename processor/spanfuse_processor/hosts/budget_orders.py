"""Budgets of a stream deployment, as an operator handles them: orders go where the charges of their scope go, and what became
of them is waited for; accounts are read from the changelog of the scopes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from pydantic import ValidationError

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.scopes.stage import ScopeStage
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import StateError, UnavailableError
from spanfuse_processor.hosts.errand import new_consumer, order_of_worker
from spanfuse_processor.hosts.topics import SCOPES_CHANGELOG, SESSIONS_CHANGELOG, partitions_of
from spanfuse_schemas import BudgetOrder, CallBatch, ChargeBatch, Policy
from spanfuse_schemas.budget import Audited
from spanfuse_schemas.topics import AUDIT

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings


async def give_order(settings: KafkaSettings, order: BudgetOrder, timeout_s: float) -> Audited:
    """Send an order to the worker that holds the accounts of its scope, and wait until it tells what became of it.

    Args:
        timeout_s: how long the worker may take, seconds.

    Raises:
        UnavailableError: if Kafka does not answer, or no worker has told of it in time; it may be carried out later.
    """
    orders = CallBatch(orders=(order,)) if order.scope.startswith("session:") else ChargeBatch(orders=(order,))

    def answer(value: bytes | None) -> Audited | None:
        found = _audited(value)
        return found if found is not None and found.order.id == order.id else None

    return await order_of_worker(settings, order.scope, orders, AUDIT, answer, timeout_s, "carried the order out")


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
    async with new_consumer(settings) as consumer:
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
