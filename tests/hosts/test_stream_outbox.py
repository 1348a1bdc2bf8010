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
