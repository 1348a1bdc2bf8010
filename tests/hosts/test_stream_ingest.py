"""The first hop, without a broker."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import MessageSizeTooLargeError, UnknownError
from faust.types import TP

from spanfuse_processor.config import Config
from spanfuse_processor.hosts.reading import prices_of
from spanfuse_processor.hosts.stream import ingest as subject
from spanfuse_processor.hosts.stream import letters
from spanfuse_processor.hosts.stream.ingest import Ingest, pack
from spanfuse_processor.hosts.stream.offsets import Offsets
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_processor.telemetry import COUNTERS, FAMILIES
from spanfuse_schemas import CallBatch
from spanfuse_schemas.topics import CALLS, DEAD_LETTER, OTLP_SPANS, partition_of
from tests.support.agents import prompt
from tests.support.loops import in_loop
from tests.support.recorded import SECOND, START_NS, chat_span, repeater, request


class Outbox:
    """Keeps what is sent; acknowledges when told to."""

    def __init__(self) -> None:
        self.sent: list[SimpleNamespace] = []

    async def send(self, topic: str, value: bytes | None, **fields: Any) -> asyncio.Future[object]:
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.sent.append(SimpleNamespace(topic=topic, value=value, future=future, **fields))
        return future

    async def acknowledge(self, *indices: int, error: Exception | None = None) -> None:
        for index in indices:
            future = self.sent[index].future
            future.set_exception(error) if error else future.set_result(None)
        for _ in range(3):
            await asyncio.sleep(0)


class Bench:
    """Ingest with its surroundings."""

    def __init__(self) -> None:
        self.outbox, self.counters = Outbox(), Counter[str]()
        self.commits: dict[TP, int] = {}
        self.offsets = Offsets(self._commit)
        normaliser = Normaliser(prices_of(Config().pricing))
        outbox: Any = self.outbox
        self.present = True
        self.ingest = Ingest(normaliser, outbox, self.offsets, 4, self.counters, lambda _: self.present)

    async def _commit(self, offsets: dict[TP, int]) -> bool:
        self.commits.update(offsets)
        return True

    async def take(self, offset: int, value: bytes, timestamp: float | None = 1_750_000_100.0) -> None:
        message = SimpleNamespace(
            topic=OTLP_SPANS, partition=2, offset=offset, key=b"k", value=value, timestamp=timestamp
        )
        await self.ingest.handle(message)

    async def committed(self) -> int:
        await self.offsets.commit()
        return self.commits.get(TP(OTLP_SPANS, 2), 0)


def good(number: int = 0) -> bytes:
    return json.dumps(repeater(number + 1)[number]).encode()


def test_calls_of_a_session_go_to_its_partition_in_order() -> None:
    """One message per partition, whatever the number of calls."""
    calls = [prompt(f"question {i}", at=i, session=f"s{i % 10}") for i in range(50)]
    packed = dict(pack(CallBatch(calls=tuple(calls)), 4, Counter()))
    assert len(packed) == len({partition_of(f"s{i}", 4) for i in range(10)})
    for partition, value in packed.items():
        found = CallBatch.from_json(value).calls
        assert list(found) == [c for c in calls if partition_of(c.session, 4) == partition]


def test_a_message_too_large_is_split_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MAX_MESSAGE_BYTES", 2_000)
    calls = [prompt(f"question {i}", at=i, session="s") for i in range(20)]
    values = [value for _, value in pack(CallBatch(calls=tuple(calls)), 4, Counter())]
    assert len(values) > 2
    assert max(map(len, values)) <= 2_000
    assert [c for value in values for c in CallBatch.from_json(value).calls] == calls


def test_a_call_that_no_topic_takes_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls beside it go on."""
    monkeypatch.setattr(subject, "MAX_MESSAGE_BYTES", 1_000)
    monkeypatch.setattr(subject, "MAX_CALL_BYTES", 2_000)
    counters = Counter[str]()
    calls = [prompt("one", session="s"), prompt("two", session="s", agent="a" * 3_000), prompt("three", session="s")]
    values = [value for _, value in pack(CallBatch(calls=tuple(calls)), 1, counters)]
    assert [c for value in values for c in CallBatch.from_json(value).calls] == [calls[0], calls[2]]
    assert counters == {"oversized_records": 1}


@in_loop
async def test_an_offset_is_committed_once_all_its_products_are_acknowledged() -> None:
    """And not before those of the messages before it."""
    bench = Bench()
    spans = [chat_span(n, [("user", f"q{n}")], session=f"s{n}") for n in range(8)]
    await bench.take(10, json.dumps(request(*spans)).encode())
    products = len(bench.outbox.sent)
    assert products > 1
    await bench.take(11, good())
    await bench.outbox.acknowledge(products)
    assert await bench.committed() == 0
    await bench.outbox.acknowledge(*range(products - 1))
    assert await bench.committed() == 0
    await bench.outbox.acknowledge(products - 1)
    assert await bench.committed() == 12


@pytest.mark.parametrize("garbage", [b"\xff\xfe\x00", b"{not json", b"[]", b'{"resourceSpans": 5}'])
def test_garbage_goes_to_the_dead_letters_as_it_came(garbage: bytes) -> None:
    """With where it came from; its offset is committed once Kafka has it."""

    async def run() -> None:
        bench = Bench()
        await bench.take(5, garbage)
        letter = bench.outbox.sent[0]
        assert (letter.topic, letter.value, letter.key) == (DEAD_LETTER, garbage, b"k")
        headers = dict(letter.headers)
        assert headers.pop("reason")
        assert headers == {"topic": OTLP_SPANS.encode(), "partition": b"2", "offset": b"5"}
        assert bench.counters["dead_letters"] == 1
        assert await bench.committed() == 0
        await bench.outbox.acknowledge(0)
        assert await bench.committed() == 6

    asyncio.run(run())


@in_loop
async def test_a_message_without_calls_is_committed_at_once() -> None:
    """An export of other spans only makes nothing, and holds up nothing."""
    bench = Bench()
    await bench.take(0, json.dumps(request()).encode())
    for _ in range(3):
        await asyncio.sleep(0)
    assert await bench.committed() == 1


@in_loop
async def test_the_same_bytes_give_the_same_calls_again() -> None:
    """A redelivered export is read with the broker's time, not with the clock."""
    bench = Bench()
    await bench.take(0, good())
    await bench.take(0, good())
    first, second = bench.outbox.sent
    assert (first.topic, first.value) == (CALLS, second.value)


@in_loop
async def test_what_is_not_acknowledged_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the bound the next message waits for acknowledgements."""
    monkeypatch.setattr(subject, "MAX_INFLIGHT_BYTES", 100)
    bench = Bench()
    await bench.take(0, good())
    waiting = asyncio.create_task(bench.take(1, good()))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    await bench.outbox.acknowledge(0)
    await asyncio.wait_for(waiting, 1)


@in_loop
async def test_a_message_that_waited_until_its_partition_had_moved_on_is_left_to_its_new_owner() -> None:
    bench = Bench()
    bench.present = False
    await bench.take(0, good())
    assert (bench.outbox.sent, bench.counters) == ([], {"stale_messages": 1})


@in_loop
async def test_a_dead_letter_that_is_too_large_is_cut_and_says_how_long_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letters, "MAX_LETTER_BYTES", 10)
    bench = Bench()
    await bench.take(0, b"{" * 25)
    (letter,) = bench.outbox.sent
    assert letter.value == b"{" * 10
    assert dict(letter.headers)["size"] == b"25"


@in_loop
async def test_a_record_refused_for_its_size_holds_up_nothing_and_any_other_refusal_does() -> None:
    bench = Bench()
    await bench.take(0, good())
    await bench.take(1, good())
    await bench.outbox.acknowledge(0, error=MessageSizeTooLargeError())
    assert await bench.committed() == 1
    await bench.outbox.acknowledge(1, error=UnknownError())
    assert await bench.committed() == 1


@in_loop
async def test_an_error_that_nobody_foresaw_costs_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise OverflowError

    bench = Bench()
    monkeypatch.setattr(subject, "pack", broken)
    await bench.take(0, good())
    monkeypatch.undo()
    await bench.take(1, good())
    assert [sent.topic for sent in bench.outbox.sent] == [DEAD_LETTER, CALLS]
    assert bench.counters["unexpected_errors"] == 1


@in_loop
async def test_everything_that_is_counted_is_explained() -> None:
    bench = Bench()
    await bench.take(0, good())
    await bench.take(1, b"garbage")
    assert {name.partition("/")[0] for name in bench.counters} <= {*COUNTERS, *FAMILIES}


@pytest.mark.parametrize("timestamp", [None, -0.001, 0.0, 4_000_000_000.0])
@in_loop
async def test_a_message_without_a_time_or_from_the_future_is_received_now(timestamp: float | None) -> None:
    bench = Bench()
    now = time.time()
    for number, at in enumerate((now - 60, now + 300 * 24 * 3600)):
        span = chat_span(number, [("user", "x")], at=at - START_NS / SECOND, session=f"s{number}")
        await bench.take(number, json.dumps(request(span)).encode(), timestamp)
    ends = [call.end_ns / SECOND for sent in bench.outbox.sent for call in CallBatch.from_json(sent.value).calls]
    assert ends == pytest.approx([now - 60, now], abs=30)
