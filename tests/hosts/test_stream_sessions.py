"""The live sessions, the table behind them, and the order of the write-back."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import faust
import msgpack
import pytest
from faust.types import TP

from spanfuse_processor.config import KafkaSettings
from spanfuse_processor.core.charges import Ledger
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import SpanfuseError, StateError
from spanfuse_processor.hosts.stream.app import new_app
from spanfuse_processor.hosts.stream.detect import Detector
from spanfuse_processor.hosts.stream.expiry import SessionExpiry
from spanfuse_processor.hosts.stream.offsets import Offsets
from spanfuse_processor.hosts.stream.sessions import Sessions
from spanfuse_processor.hosts.stream.table import StateTable, Stored
from spanfuse_processor.hosts.stream.writeback import WriteBack
from spanfuse_processor.hosts.topics import SESSIONS_CHANGELOG
from spanfuse_processor.telemetry import COUNTERS, FAMILIES
from spanfuse_schemas import Call, CallBatch, Decision, Detection, Reset
from spanfuse_schemas.topics import CALLS, CHARGES, CONTROL, DEAD_LETTER, DETECTIONS
from tests.support.agents import policy, prompt
from tests.support.loops import in_loop


@pytest.fixture
def table() -> StateTable:
    """The table of an app that is not started."""
    app: faust.App = new_app(KafkaSettings(), 4, lambda error: None)
    return StateTable.create(app, KafkaSettings(), 4)


def stored(offset: int, key: str = "s") -> bytes:
    return Stored(offset, 0, 0, SessionState(key).snapshot()).pack()


def record(key: bytes, value: bytes | None, partition: int = 1) -> Any:
    return SimpleNamespace(key=key, value=value, partition=partition)


def test_a_stored_session_is_read_as_it_was_written() -> None:
    whole = Stored(2**40, 1_750_000_000 * 10**9, 3, b"snapshot")
    assert Stored.unpack(whole.pack()) == whole
    with pytest.raises(StateError):
        Stored.unpack(b"\x01\x02")
    with pytest.raises(StateError):
        Stored.unpack(b"\xff" + whole.pack()[1:])


def test_a_late_write_of_a_worker_that_had_lost_the_partition_undoes_nothing(table: StateTable) -> None:
    """Of two values of a session the one that has applied more wins, in whatever order they lie."""
    table.apply_records([record(b"s", stored(50)), record(b"s", stored(40))])
    assert Stored.unpack(table.fetch(b"s") or b"").offset == 50
    table.apply_records([record(b"s", stored(60))])
    assert Stored.unpack(table.fetch(b"s") or b"").offset == 60


def test_a_tombstone_forgets_a_session(table: StateTable) -> None:
    table.apply_records([record(b"s", stored(50)), record(b"s", None)])
    assert table.fetch(b"s") is None
    assert list(table.entries()) == []


def test_a_message_is_applied_to_a_session_once(table: StateTable) -> None:
    """Not again after a redelivery, whether the session is in memory or comes from the table."""
    sessions = Sessions(table, Counter())
    assert sessions.load("s", 1, 7) is not None
    sessions.touched("s", 7)
    assert sessions.load("s", 1, 7) is None
    assert sessions.load("s", 1, 6) is None
    assert sessions.load("s", 1, 8) is not None
    sessions.take(10)
    sessions.clear()
    assert sessions.load("s", 1, 7) is None
    assert sessions.load("s", 1, 8) is not None


def test_the_offset_of_a_session_never_falls(table: StateTable) -> None:
    sessions = Sessions(table, Counter())
    sessions.load("s", 1, 9)
    sessions.touched("s", 9)
    sessions.touched("s", 4)
    ((_, value, partition),) = sessions.take(10)
    assert (Stored.unpack(value or b"").offset, partition) == (9, 1)


def test_memory_is_bounded_and_keeps_what_is_not_stored(table: StateTable) -> None:
    """The longest silent go first; a session that waits to be stored stays."""
    sessions = Sessions(table, Counter(), max_live=2)
    for name in "abcd":
        sessions.load(name, 1, 1)
    sessions.touched("a", 1)
    sessions.trim()
    assert sessions.dirty == 1
    assert sorted(sessions._live) == ["a", "d"]


def test_an_unreadable_state_is_counted_and_begun_afresh(table: StateTable) -> None:
    counters = Counter[str]()
    table.store(b"s", b"\xff\xff", 1)
    found = Sessions(table, counters).load("s", 1, 3)
    assert found is not None
    assert found.calls == 0
    assert counters["unreadable_sessions"] == 1


def test_a_state_of_another_version_begins_anew_above_its_epoch_and_is_not_applied_twice(table: StateTable) -> None:
    """Guards ignore what is not above the epoch that they know."""
    counters = Counter[str]()
    table.store(b"s", Stored(50, 7, 12, b"of another version").pack(), 1)
    sessions = Sessions(table, counters)
    assert sessions.load("s", 1, 50) is None
    state = sessions.load("s", 1, 51)
    assert state is not None
    assert (state.calls, state.epoch, state.last_ns) == (0, 13, 7)
    assert counters["unreadable_sessions"] == 1


@pytest.mark.parametrize("field", ["cost_nano_usd", "last_ns", "epoch"])
def test_a_state_that_cannot_be_stored_begins_anew_and_the_others_are_stored(table: StateTable, field: str) -> None:
    """Numbers beyond 64 bits, which no snapshot takes; its epoch grows, as far as it can."""
    counters = Counter[str]()
    sessions = Sessions(table, counters)
    for name in ("bad", "good"):
        state = sessions.load(name, 1, 3)
        assert state is not None
        state.calls, state.epoch = 9, 4
        sessions.touched(name, 3)
    bad = sessions.load("bad", 1, 4)
    setattr(bad, field, 2**70)
    rows = {key: Stored.unpack(value or b"") for key, value, _ in sessions.take(10)}
    assert SessionState.restore(rows[b"good"].snapshot).calls == 9
    assert SessionState.restore(rows[b"bad"].snapshot).calls == 0
    assert rows[b"bad"].epoch == (2**63 - 1 if field == "epoch" else 5)
    assert (counters["unstorable_sessions"], sessions.dirty) == (1, 0)


class Outbox:
    """Remembers the order of what is sent and of what is waited for."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.values: dict[str, list[bytes | None]] = {}

    async def send(self, topic: str, value: bytes | None, **_: Any) -> asyncio.Future[object]:
        self.log.append(topic)
        self.values.setdefault(topic, []).append(value)
        return asyncio.get_running_loop().create_future()

    async def send_many(self, topic: str, records: list[tuple[bytes, bytes | None, int]]) -> None:
        for _, value, _ in records:
            await self.send(topic, value)

    async def settled(self) -> None:
        self.log.append("settled")


class Bench:
    """A detector with its surroundings."""

    def __init__(self, table: StateTable) -> None:
        self.outbox, self.counters = Outbox(), Counter[str]()
        self.sessions = Sessions(table, self.counters)
        outbox: Any = self.outbox
        self.writeback = WriteBack(self.sessions, outbox, Offsets(self._commit), 4)
        self.present, self.failures = True, list[BaseException]()
        self.detector = Detector(
            Pipeline(policy()), self.sessions, outbox, self.writeback, self.counters,
            partitions=1, present=lambda _: self.present, fail=self.failures.append,
        )  # fmt: skip

    async def _commit(self, offsets: dict[TP, int]) -> bool:
        self.outbox.log.append(f"commit {offsets[TP(CALLS, 1)]}")
        return True

    async def take(self, offset: int, *calls: Call, value: bytes | None = None) -> None:
        data = CallBatch(calls=calls).to_json() if value is None else value
        await self.detector.handle(SimpleNamespace(topic=CALLS, partition=1, offset=offset, key=None, value=data))


def looping(count: int) -> list[Call]:
    return [prompt("Are we there yet?", at=i, session="s", agent="a", cost=5) for i in range(count)]


@in_loop
async def test_outputs_come_before_states_and_states_before_commits() -> None:
    """So that a crash between any two repeats something, and loses nothing."""
    bench = Bench(StateTable.create(new_app(KafkaSettings(), 4, print), KafkaSettings(), 4))
    await bench.take(0, *looping(4))
    assert bench.outbox.log[0] == CONTROL, "a decision waits for nothing"
    await bench.writeback.flush()
    log = [entry for i, entry in enumerate(bench.outbox.log) if entry != bench.outbox.log[i - 1]]
    assert log == [CONTROL, DETECTIONS, CHARGES, "settled", SESSIONS_CHANGELOG, "settled", "commit 1"]


@in_loop
async def test_a_session_is_written_once_per_flush() -> None:
    """However many messages touched it."""
    bench = Bench(StateTable.create(new_app(KafkaSettings(), 4, print), KafkaSettings(), 4))
    for offset in range(20):
        await bench.take(offset, prompt(f"question {offset}", at=offset, session="s"))
    await bench.writeback.flush()
    await bench.writeback.flush()
    (value,) = bench.outbox.values[SESSIONS_CHANGELOG]
    assert Stored.unpack(value or b"").offset == 19


@in_loop
async def test_a_message_of_a_lost_partition_changes_nothing() -> None:
    """It is delivered again, to whoever has the partition now."""
    bench = Bench(StateTable.create(new_app(KafkaSettings(), 4, print), KafkaSettings(), 4))
    bench.present = False
    await bench.take(0, *looping(4))
    await bench.writeback.flush()
    assert bench.outbox.values == {}
    assert "commit 1" not in bench.outbox.log


@in_loop
async def test_bytes_that_are_no_batch_are_a_dead_letter_and_the_next_message_is_applied() -> None:
    bench = Bench(StateTable.create(new_app(KafkaSettings(), 4, print), KafkaSettings(), 4))
    await bench.take(0, value=b"garbage")
    await bench.take(1, value=b"")
    await bench.take(2, *looping(1))
    assert bench.outbox.values[DEAD_LETTER] == [b"garbage", b""]
    assert (bench.counters["dead_letters"], bench.counters["calls"]) == (2, 1)


@in_loop
async def test_a_gap_in_the_offsets_ends_the_worker() -> None:
    """The engine has lost a message: a restart reads it again. A redelivery is no gap."""
    bench = Bench(StateTable.create(new_app(KafkaSettings(), 4, print), KafkaSettings(), 4))
    for offset in (5, 6, 5, 6, 7):
        await bench.take(offset, *looping(1))
    with pytest.raises(SpanfuseError, match="offset 9 came where 8 was due"):
        await bench.take(9, *looping(1))
    assert len(bench.failures) == 1


@in_loop
async def test_a_redelivered_message_changes_nothing() -> None:
    """Neither before nor after the flush."""
    bench = Bench(StateTable.create(new_app(KafkaSettings(), 4, print), KafkaSettings(), 4))
    calls = looping(4)
    await bench.take(0, *calls)
    sent = {topic: list(values) for topic, values in bench.outbox.values.items()}
    await bench.take(0, *calls)
    await bench.writeback.flush()
    await bench.take(0, *calls)
    await bench.writeback.flush()
    assert {t: v for t, v in bench.outbox.values.items() if t in sent} == sent
    assert bench.counters["redelivered"] == 8
    assert len(bench.outbox.values[CHARGES]) == len(set(bench.outbox.values[CHARGES]))


@in_loop
async def test_a_message_that_cannot_be_told_is_a_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it has gone out, and the next message is applied."""
    bench = Bench(StateTable.create(new_app(KafkaSettings(), 4, print), KafkaSettings(), 4))

    def unserialisable(self: Detection) -> bytes:
        raise ValueError("no text")

    monkeypatch.setattr(Detection, "to_json", unserialisable)
    await bench.take(0, *looping(4))
    monkeypatch.undo()
    await bench.take(1, prompt("another", session="t"))
    assert list(bench.outbox.values) == [DEAD_LETTER]
    assert (bench.counters["unexpected_errors"], bench.counters["calls"]) == (1, 1)


def of_an_earlier_build(value: bytes) -> bytes:
    """The same stored state with another version in front of its snapshot."""
    stored = Stored.unpack(value)
    body: list[Any] = msgpack.unpackb(stored.snapshot, raw=False, strict_map_key=False)
    return stored._replace(snapshot=msgpack.packb([1, *body[1:]])).pack()


def told(bench: Bench) -> list[tuple[str, str, int]]:
    """Decisions that went out, in order."""
    found = [Decision.from_json(value or b"") for value in bench.outbox.values[CONTROL]]
    return [(d.key, d.state, d.epoch) for d in found]


@in_loop
async def test_a_block_over_a_state_of_an_earlier_build_is_closed_when_its_session_comes_up_again() -> None:
    """Above its epoch, and before whatever the session is told next."""
    bench = Bench(StateTable.create(new_app(KafkaSettings(), 4, print), KafkaSettings(), 4))
    await bench.take(0, *looping(4))
    await bench.writeback.flush()
    table = bench.sessions._table
    table.store(b"s", of_an_earlier_build(table.fetch(b"s") or b""), 1)
    bench.sessions.clear()
    await bench.take(1, *[c.model_copy(update={"span_id": f"{i + 1:016x}"}) for i, c in enumerate(looping(4))])
    assert told(bench) == [("session:s", "open", 1), ("session:s", "closed", 2), ("session:s", "open", 3)]


@in_loop
async def test_a_block_over_a_state_whose_header_cannot_be_read_is_cleared_at_any_epoch() -> None:
    bench = Bench(StateTable.create(new_app(KafkaSettings(), 4, print), KafkaSettings(), 4))
    bench.sessions._table.store(b"s", b"\xff", 1)
    await bench.take(0, prompt("q", session="s"))
    assert bench.outbox.values[CONTROL] == [None]


@in_loop
async def test_a_state_that_cannot_be_stored_leaves_no_block_behind() -> None:
    bench = Bench(StateTable.create(new_app(KafkaSettings(), 4, print), KafkaSettings(), 4))
    await bench.take(0, *looping(4))
    state = bench.sessions.load("s", 1, 1)
    assert state is not None
    state.cost_nano_usd = 2**70
    await bench.writeback.flush()
    assert told(bench) == [("session:s", "open", 1), ("session:s", "closed", 2)]


@in_loop
async def test_a_message_that_fails_half_way_leaves_no_half_of_it_in_its_sessions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are as they were last stored, and what was opened since is closed."""
    bench = Bench(StateTable.create(new_app(KafkaSettings(), 4, print), KafkaSettings(), 4))
    await bench.take(0, prompt("stored", session="s"), prompt("stored", session="t"))
    await bench.writeback.flush()
    await bench.take(1, *[prompt("Are we there yet?", at=i, session="t") for i in range(4)])
    monkeypatch.setattr(Ledger, "charges", lambda *_: 1 / 0)
    await bench.take(2, prompt("half", session="s"), prompt("half", session="t"))
    monkeypatch.undo()
    for name, calls, epoch in (("s", 1, 0), ("t", 1, 2)):
        state = bench.sessions.load(name, 1, 3)
        assert state is not None
        assert (state.calls, state.epoch, state.decision) == (calls, epoch, None)
        assert bench.sessions.load(name, 1, 1 if name == "t" else 0) is None
    assert told(bench) == [("session:t", "open", 1), ("session:t", "closed", 2)]
    assert bench.counters["dead_letters"] == 1


@in_loop
async def test_a_flush_ends_and_commits_nothing_when_its_partitions_are_revoked_meanwhile() -> None:
    """Between any two of its steps."""
    bench = Bench(StateTable.create(new_app(KafkaSettings(), 4, print), KafkaSettings(), 4))
    calls = [prompt("q", at=n, session=f"s{n}") for n in range(200)]
    await bench.take(0, *calls)
    flush = asyncio.create_task(bench.writeback.flush())
    await asyncio.sleep(0)
    assert 0 < bench.sessions.dirty < 200
    bench.sessions.clear()
    bench.writeback.forget()
    await asyncio.wait_for(flush, 5)
    assert "commit 1" not in bench.outbox.log


@in_loop
async def test_messages_get_their_turn_while_states_are_serialised() -> None:
    bench = Bench(StateTable.create(new_app(KafkaSettings(), 4, print), KafkaSettings(), 4))
    await bench.take(0, *[prompt("q", at=n, session=f"s{n}") for n in range(300)])
    flush = asyncio.create_task(bench.writeback.flush())
    await asyncio.sleep(0)
    await bench.take(1, prompt("q", session="t"))
    assert 0 < bench.sessions.dirty < 301
    await flush


@in_loop
async def test_a_reset_of_an_unknown_session_clears_what_guards_hold_and_makes_no_session() -> None:
    """A closed record for whoever waits for it, and a tombstone, which clears a block of any epoch."""
    bench = Bench(StateTable.create(new_app(KafkaSettings(), 4, print), KafkaSettings(), 4))
    await bench.take(0, value=CallBatch(resets=(Reset(key="session:lost", at_ns=5, actor="a"),)).to_json())
    await bench.writeback.flush()
    closed, tombstone = bench.outbox.values[CONTROL]
    decision = Decision.from_json(closed or b"")
    assert (decision.key, decision.state, decision.epoch, decision.issued_at_ns) == ("session:lost", "closed", 0, 5)
    assert tombstone is None
    assert SESSIONS_CHANGELOG not in bench.outbox.values


@in_loop
async def test_a_reset_of_a_known_session_closes_it_above_its_epoch() -> None:
    bench = Bench(StateTable.create(new_app(KafkaSettings(), 4, print), KafkaSettings(), 4))
    await bench.take(0, *looping(4))
    await bench.take(1, value=CallBatch(resets=(Reset(key="session:s", at_ns=5),)).to_json())
    told = [Decision.from_json(value or b"") for value in bench.outbox.values[CONTROL]]
    assert [d.state for d in told] == ["open", "closed"]
    assert told[0].epoch < told[1].epoch


@in_loop
async def test_a_session_that_cannot_be_read_expires_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the header in front of its snapshot; one whose header cannot be read, when it was not written again for so long."""
    bench = Bench(StateTable.create(new_app(KafkaSettings(), 4, print), KafkaSettings(), 4))
    table, outbox, pipeline = bench.sessions._table, bench.outbox, Pipeline(policy())
    offsets = Offsets(bench._commit)
    waiting: Any = outbox
    expiry = SessionExpiry(table, bench.sessions, pipeline, waiting, bench.writeback, offsets, bench.counters)
    table.store(b"old", Stored(0, 1, 3, b"?").pack(), 1)
    table.store(b"alien", b"\xff", 1)
    table.store(b"new", Stored(1, 2**60, 0, SessionState("new").snapshot()).pack(), 1)
    offsets.done(TP(CALLS, 1), 5)
    await offsets.commit()
    for _ in range(4):
        await expiry.turn()
    assert {key for key, _, _ in table.entries()} == {b"alien", b"new"}
    expiry._since -= 10**9
    for _ in range(4):
        await expiry.turn()
    assert {key for key, _, _ in table.entries()} == {b"new"}
    assert outbox.values[CONTROL] == [None, None]
    assert bench.counters["expired_sessions"] == 2


@in_loop
async def test_everything_that_is_counted_is_explained() -> None:
    bench = Bench(StateTable.create(new_app(KafkaSettings(), 4, print), KafkaSettings(), 4))
    await bench.take(0, *looping(4))
    await bench.take(1, value=b"garbage")
    assert {name.partition("/")[0] for name in bench.counters} <= {*COUNTERS, *FAMILIES}
