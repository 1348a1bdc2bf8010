"""An operator's reset of a stream deployment: the order goes where the calls of the session go, or the charges of the
scope, and its effect is waited for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pydantic import ValidationError

from spanfuse_processor.errors import SpanfuseError
from spanfuse_processor.hosts.errand import order_of_worker
from spanfuse_schemas import CallBatch, ChargeBatch, Decision, Reset
from spanfuse_schemas.topics import CONTROL

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings


async def reset_breaker(settings: KafkaSettings, key: str, actor: str, timeout_s: float) -> Decision:
    """Send a Reset to the worker that holds the state of a key, and wait until it has closed the breaker.

    Args:
        key: key of the breaker, such as `session:checkout-42` or `agent:research`.
        actor: who orders it.
        timeout_s: how long the worker may take, seconds.

    Raises:
        UnavailableError: if Kafka does not answer, or no worker has closed the breaker in time.
        SpanfuseError: if the worker knows nothing of the key; a block of it that still stood in the control topic is
            cleared all the same.
    """
    reset = Reset(key=key, at_ns=time.time_ns(), actor=actor)
    order = CallBatch(resets=(reset,)) if key.startswith("session:") else ChargeBatch(resets=(reset,))

    def answer(value: bytes | None) -> Decision | None:
        decision = _decision(value)
        # The time of the order is on the decision that it led to, and so tells it from any other close.
        is_ours = decision is not None and decision.key == key and decision.issued_at_ns == reset.at_ns
        return decision if is_ours else None

    decision = await order_of_worker(settings, key, order, CONTROL, answer, timeout_s, f"closed {key}")
    if not decision.epoch:
        raise SpanfuseError(f"nothing is known of {key}; whatever Guards still held against it is cleared")
    return decision


def _decision(value: bytes | None) -> Decision | None:
    try:
        return Decision.from_json(value) if value else None
    except ValidationError:
        return None
