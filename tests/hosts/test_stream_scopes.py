"""The third hop of the stream host: charges are applied once, stored in the same order as sessions, and travel packed."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from spanfuse_processor.config import KafkaSettings
from spanfuse_processor.core.scopes.stage import ScopeStage
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.hosts.stream.app import new_app
from spanfuse_processor.hosts.stream.combine import Combiner
from spanfuse_processor.hosts.stream.expiry import ScopeExpiry
from spanfuse_processor.hosts.stream.offsets import Offsets
from spanfuse_processor.hosts.stream.sessions import Scopes
from spanfuse_processor.hosts.stream.table import StateTable, Stored
from spanfuse_processor.hosts.stream.writeback import MESSAGE_BYTES, WriteBack
from spanfuse_processor.hosts.topics import SCOPES_CHANGELOG
from spanfuse_processor.telemetry import COUNTERS, FAMILIES
from spanfuse_schemas import Charge, ChargeBatch, Decision, Reset
from spanfuse_schemas.topics import CHARGES, CONTROL, DEAD_LETTER, DETECTIONS, partition_of
from tests.support.agents import policy
from tests.support.charges import charge, names
from tests.support.loops import in_loop


class Outbox:
    """Remembers what is sent, in order."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.values: dict[str, list[bytes | None]] = {}
        self.partitions: list[int] = []

    async def send(self, topic: str, value: bytes | None, **_: Any) -> asyncio.Future[object]:
        self.log.append(topic)
        self.values.setdefault(topic, []).append(value)
        return asyncio.get_running_loop().create_future()

    async def send_many(self, topic: str, records: Any) -> None:
        for _, value, partition in records:
            self.partitions.append(partition)
            await self.send(topic, value)

    async def settled(self) -> None:
        self.log.append("settled")


class Bench:
    """A combiner with its surroundings, on partition 1."""

    def __init__(self) -> None:
        self.outbox, self.counters = Outbox(), Counter[str]()
        self.table = StateTable.create(new_app(KafkaSettings(), 4, print), KafkaSettings(), 4, "scopes")
        self.stage = ScopeStage(policy(agent_breaker={"mode": "block", "sessions": 2}))
        self.offsets = Offsets(self._commit)
        outbox: Any = self.outbox
        self.scopes = Scopes(self.table, self.counters)
        self.writeback = WriteBack(self.scopes, outbox, self.offsets, 4, SCOPES_CHANGELOG)
        self.combiner = Combiner(
            self.stage, self.scopes, outbox, self.writeback, self.counters, present=lambda _: True, fail=print
        )
        self.expiry = ScopeExpiry(
            self.table, self.scopes, self.stage, outbox, self.writeback, self.offsets, self.counters
        )

    async def _commit(self, offsets: dict[TP, int]) -> bool:
        self.outbox.log.append(f"commit {offsets[TP(CHARGES, 1)]}")
        return True

    async def take(self, offset: int, *charges: Charge, resets: tuple[Reset, ...] = (), value: bytes = b"") -> None:
        data = value or ChargeBatch(charges=charges, resets=resets).to_json()
        await self.combiner.handle(SimpleNamespace(topic=CHARGES, partition=1, offset=offset, key=None, value=data))

    def told(self) -> list[tuple[str, str]]:
        return [(d.key, d.state) for v in self.outbox.values.get(CONTROL, []) if (d := Decision.from_json(v or b""))]


def trips() -> list[Charge]:
    return [charge("agent:a", at=i, members=names(i), tripped=names(i)) for i in range(2)]


@in_loop
async def test_decisions_wait_for_nothing_and_states_come_before_commits() -> None:
    bench = Bench()
    await bench.take(0, *trips())
    assert bench.outbox.log == [CONTROL, DETECTIONS]
    assert bench.told() == [("agent:a", "open")]
    await bench.writeback.flush()
    log = [entry for i, entry in enumerate(bench.outbox.log) if i == 0 or entry != bench.outbox.log[i - 1]]
    assert log == [CONTROL, DETECTIONS, "settled", SCOPES_CHANGELOG, "settled", "commit 1"]


@in_loop
async def test_a_message_delivered_again_and_charges_sent_again_change_nothing() -> None:
    """The first by the offset of the message, the second by that of their source."""
    bench = Bench()
    found = trips()
    await bench.take(0, *found)
    await bench.take(0, *found)
    await bench.writeback.flush()
    bench.scopes.clear()
    await bench.take(0, *found)
    await bench.take(1, *found)
    await bench.writeback.flush()
    state = bench.scopes.load("agent:a", 1, 9)
    assert state is not None
    assert (state.calls, bench.told()) == (2, [("agent:a", "open")])
    assert bench.counters["redelivered_charges"] == 6


@in_loop
async def test_a_reset_closes_the_breaker_of_an_agent_and_makes_no_agent_that_nobody_knows() -> None:
    bench = Bench()
    await bench.take(0, *trips())
    await bench.take(1, resets=(Reset(key="agent:a", at_ns=5, actor="ops"),))
    assert bench.told() == [("agent:a", "open"), ("agent:a", "closed")]
    await bench.take(2, resets=(Reset(key="agent:lost", at_ns=5),))
    closed, tombstone = bench.outbox.values[CONTROL][2:]
    assert (Decision.from_json(closed or b"").epoch, tombstone) == (0, None)
    assert not bench.scopes.known("agent:lost")


@in_loop
@pytest.mark.parametrize("agent", ["a", "lost"])
async def test_who_orders_a_reset_knows_its_decision_by_the_time_of_the_order_though_that_clock_is_ahead(
    agent: str,
) -> None:
    bench, ahead_ns = Bench(), time.time_ns() + 3600 * 10**9
    await bench.take(0, *trips())
    await bench.take(1, resets=(Reset(key=f"agent:{agent}", at_ns=ahead_ns),))
    told = [Decision.from_json(value) for value in bench.outbox.values[CONTROL] if value]
    assert (told[-1].key, told[-1].state, told[-1].issued_at_ns) == (f"agent:{agent}", "closed", ahead_ns)


@in_loop
async def test_bytes_that_are_no_charges_are_a_dead_letter_and_the_next_message_is_applied() -> None:
    bench = Bench()
    await bench.take(0, value=b"garbage")
    await bench.take(1, *trips())
    assert bench.outbox.values[DEAD_LETTER] == [b"garbage"]
    assert bench.told() == [("agent:a", "open")]
    assert {name.partition("/")[0] for name in bench.counters} <= {*COUNTERS, *FAMILIES}


@in_loop
async def test_a_single_charge_of_an_earlier_build_is_a_dead_letter_and_not_passed_over_in_silence() -> None:
    bench = Bench()
    old = trips()[0].to_json()
    await bench.take(0, value=old)
    assert bench.counters["dead_letters"] == 1
    assert bench.outbox.values[DEAD_LETTER] == [old]


@in_loop
async def test_a_block_of_an_agent_whose_state_cannot_be_read_is_closed_when_the_agent_comes_up_again() -> None:
    bench = Bench()
    await bench.take(0, *trips())
    await bench.writeback.flush()
    stored = Stored.unpack(bench.table.fetch(b"agent:a") or b"")
    bench.table.store(b"agent:a", stored._replace(snapshot=b"of another version").pack(), 1)
    bench.scopes.clear()
    await bench.take(1, charge("agent:a", at=9))
    assert bench.told() == [("agent:a", "open"), ("agent:a", "closed")]


@in_loop
async def test_scopes_of_which_nothing_is_heard_are_forgotten_as_long_as_their_kind_is_kept() -> None:
    """By the newest call of the partition: a day for a trace, five weeks for a team."""
    bench = Bench()
    old = [charge(key, at=0) for key in ("trace:t", "team:x")]
    await bench.take(0, *trips(), *old, charge("global:*", at=3 * 24 * 3600))
    await bench.writeback.flush()
    for _ in range(4):
        await bench.expiry.turn()
    assert {key for key, _, _ in bench.table.entries()} == {b"team:x", b"global:*"}
    assert bench.outbox.values[CONTROL][-1] is None
    assert bench.counters["expired_scopes"] == 2


@in_loop
async def test_agents_that_are_kept_are_looked_at_without_restoring_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop must not stand still for thousands of them that are idle for days."""
    bench = Bench()
    few, many = charge("agent:few", at=0, sessions=1), charge("agent:many", at=0, sessions=11)
    await bench.take(0, few, many, charge("team:x", at=0), charge("global:*", at=3 * 24 * 3600))
    await bench.writeback.flush()
    restore, restored = ScopeState.restore, list[bytes]()

    def watched(data: bytes) -> ScopeState:
        restored.append(data)
        return restore(data)

    monkeypatch.setattr(ScopeState, "restore", watched)
    for _ in range(4):
        await bench.expiry.turn()
    assert {key for key, _, _ in bench.table.entries()} == {b"agent:many", b"team:x", b"global:*"}
    assert len(restored) == 1, "only the one that is over"


@in_loop
async def test_charges_travel_packed_in_order_and_no_message_is_too_large() -> None:
    bench = Bench()
    made = [charge(f"agent:{i % 7}", offset=i, members=names(*range(200))) for i in range(500)]
    bench.writeback.charge(made)
    await bench.writeback.flush()
    values = [value or b"" for value in bench.outbox.values[CHARGES]]
    assert len(values) < 20
    assert max(map(len, values)) < MESSAGE_BYTES + 100
    found: list[Charge] = [c for value in values for c in ChargeBatch.from_json(value).charges]
    assert sorted(found, key=lambda c: c.offset) == made
    for key in {c.scope for c in made}:
        assert [c.offset for c in found if c.scope == key] == [c.offset for c in made if c.scope == key]
    for value, partition in zip(values, bench.outbox.partitions, strict=True):
        assert {partition_of(c.scope, 4) for c in ChargeBatch.from_json(value).charges} == {partition}


@in_loop
async def test_a_stored_scope_is_read_as_it_was() -> None:
    bench = Bench()
    await bench.take(0, *trips())
    await bench.writeback.flush()
    (value,) = bench.outbox.values[SCOPES_CHANGELOG]
    stored = Stored.unpack(value or b"")
    assert (stored.offset, stored.epoch, ScopeState.restore(stored.snapshot).calls) == (0, 1, 2)
