"""What the worker sends, without a broker."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from aiokafka.errors import MessageSizeTooLargeError, UnknownError

from spanfuse_processor.config import KafkaSettings
from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.hosts.stream.outbox import Outbox
from spanfuse_schemas import Decision
from spanfuse_schemas.decision import LAST_EPOCH
from spanfuse_schemas.signing import Keyring
from spanfuse_schemas.topics import CONTROL, DETECTIONS
from tests.support.loops import in_loop


class Producer:
    """Refuses at once, or with its acknowledgement."""

    def __init__(self, error: Exception, *, at_once: bool) -> None:
        self._error, self._at_once = error, at_once

    async def send(self, *_: Any, **__: Any) -> asyncio.Future[object]:
        if self._at_once:
            raise self._error
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        future.set_exception(self._error)
        return future


def outbox(producer: Producer) -> tuple[Outbox, list[BaseException], Counter[str]]:
    failures, counters = list[BaseException](), Counter[str]()
    box: Any = Outbox(KafkaSettings(), failures.append, counters)
    box.bulk = box.urgent = producer
    return box, failures, counters


@pytest.mark.parametrize("at_once", [True, False], ids=["by the client", "by the broker"])
def test_a_record_refused_for_its_size_is_counted_and_the_worker_goes_on(at_once: bool) -> None:
    """Sent again it would be refused again, and so for ever."""

    @in_loop
    async def run() -> None:
        box, failures, counters = outbox(Producer(MessageSizeTooLargeError("17 MB"), at_once=at_once))
        await box.send("t", b"x")
        await box.settled()
        await asyncio.sleep(0)
        assert (failures, counters) == ([], {"oversized_records": 1})

    run()


@in_loop
async def test_any_other_refusal_ends_the_worker() -> None:
    box, failures, counters = outbox(Producer(UnknownError(), at_once=False))
    await box.send("t", b"x")
    with pytest.raises(UnavailableError):
        await box.settled()
    await asyncio.sleep(0)
    assert (len(failures), counters) == (1, {})


KEYS = Keyring(["the key of this test"])


class Wire:
    """Takes everything."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes | None, bytes | None]] = []

    async def send(self, topic: str, value: bytes | None, *, key: bytes | None, **_: Any) -> asyncio.Future[object]:
        self.sent.append((topic, key, value))
        return asyncio.get_running_loop().create_future()


def signing() -> tuple[Outbox, Wire]:
    box: Any = Outbox(KafkaSettings(), lambda _: None, Counter(), KEYS)
    box.bulk = box.urgent = wire = Wire()
    return box, wire


@in_loop
async def test_whatever_goes_to_the_control_topic_is_signed_and_nothing_else_is() -> None:
    box, wire = signing()
    await box.send(CONTROL, b'{"key":"session:s"}', key=b"session:s", urgent=True)
    await box.send(DETECTIONS, b'{"rule":"cycle"}', key=b"session:s")
    (_, _, signed), (_, _, plain) = wire.sent
    assert KEYS.verified(signed or b"") == b'{"key":"session:s"}'
    assert plain == b'{"rule":"cycle"}'


@in_loop
async def test_before_a_tombstone_a_signed_record_ends_the_key_at_any_epoch() -> None:
    box, wire = signing()
    await box.send(CONTROL, None, key=b"session:s", urgent=True)
    (_, _, signed), tombstone = wire.sent
    last = Decision.from_json(KEYS.verified(signed or b""))
    assert (last.key, last.state, last.action, last.epoch) == ("session:s", "closed", "allow", LAST_EPOCH)
    assert tombstone == (CONTROL, b"session:s", None)
