"""The embedded host without its servers."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from spanfuse_processor.config import Config
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import DecodeError, UnavailableError
from spanfuse_processor.exporters.hub import Hub, Listener
from spanfuse_processor.hosts.board import shown
from spanfuse_processor.hosts.engine import PART, Engine
from spanfuse_processor.hosts.live import LiveSessions
from spanfuse_processor.hosts.store import Changes, Store
from spanfuse_processor.otlp.export import ExportResult
from spanfuse_processor.telemetry import COUNTERS, FAMILIES
from tests.support.recorded import START_NS, chat_span, healthy, repeater, request
from tests.support.shown import detections

DAY_NS = 24 * 3600 * 10**9


class Host:
    """An engine that can be started again on the same file."""

    def __init__(self, path: Path, **service: Any) -> None:
        self.path, self.hub = path, Hub()
        self._open(**service)

    def _open(self, **service: Any) -> None:
        self.store = Store(str(self.path))
        self.engine = Engine(Config.model_validate({"service": {"mode": "enforce", **service}}), self.store, self.hub)

    def restart(self, **service: Any) -> None:
        """As after kill -9: nothing is told to end."""
        self.store._database.close()
        self._open(**service)

    def send(self, *requests: dict[str, Any], at_ns: int = START_NS) -> list[ExportResult]:
        return [self.bytes(json.dumps(r).encode(), at_ns) for r in requests]

    def bytes(self, data: bytes, at_ns: int = START_NS) -> ExportResult:
        return asyncio.run(self.engine.ingest(data, "json", at_ns))

    def blocked(self) -> list[str]:
        return [d.key for d in self.engine.work.board.decisions() if d.action == "block"]

    def described(self, session: str, now_ns: int = 0) -> dict[str, Any] | None:
        """What is known of a session."""
        state = self.engine.work.sessions.known(session)
        if state is None:
            return None
        names = ("calls", "tools", "tokens", "cost_nano_usd", "first_ns", "last_ns", "epoch")
        held = shown(state.decision, now_ns).model_dump(mode="json") if state.decision is not None else None
        return {name: getattr(state, name) for name in names} | {"session": session, "decision": held}

    def counts(self) -> dict[str, Any]:
        return {name: value for name, value in self.engine.work.counters.as_dict().items() if value}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path / "spanfuse.db")
    yield made
    made.store.close()


def told(listener: Listener) -> list[tuple[str, dict[str, Any]]]:
    """Events that a listener was told and has not taken."""
    data = asyncio.run(listener.take(0)) or b""
    events = [block.split("\n") for block in data.decode().split("\n\n") if block]
    return [(name.removeprefix("event: "), json.loads(text.removeprefix("data: "))) for name, text in events]


def test_the_third_useless_call_opens_the_breaker_and_it_is_told_at_once(host: Host) -> None:
    listener = host.hub.listen()
    host.send(*repeater(2))
    assert told(listener) == []
    host.send(repeater(3)[2])
    (first, decision), (second, detection) = told(listener)
    assert (first, decision["key"], decision["action"], decision["rule"]) == (
        "decision",
        "session:s",
        "block",
        "repeat.prompt",
    )
    assert (second, detection["rule"]) == ("detection", "repeat.prompt")
    assert [d.rule for d in detections(host.store)] == ["repeat.prompt"]


def test_a_healthy_agent_is_left_alone(host: Host) -> None:
    host.send(*healthy(8))
    assert host.blocked() == []
    assert host.counts() == {"requests": 8, "spans": 8, "calls": 8, "batches": 8, "cost_nano_usd": 8 * 27_000}


def test_the_same_requests_again_change_nothing_but_the_count_of_duplicates(host: Host) -> None:
    host.send(*repeater(3))
    before, state = host.described("s"), host.store.load("s")
    listener = host.hub.listen()
    host.send(*repeater(3))
    assert (host.described("s"), host.store.load("s"), told(listener)) == (before, state, [])
    assert host.counts()["duplicates"] == 3


def test_after_kill_minus_nine_blocks_money_and_counts_are_there_and_nothing_counts_twice(host: Host) -> None:
    host.send(*repeater(3))
    before, counts = host.described("s"), host.counts()
    host.restart()
    assert (host.blocked(), host.described("s"), host.counts()) == (["session:s"], before, counts)
    host.send(*repeater(3))
    assert host.described("s") == before


def test_a_request_that_cannot_be_decoded_is_kept_and_the_next_is_taken(host: Host) -> None:
    for garbage in (b"\xff\x00garbage", b"[]", b'{"resourceSpans": 5}', b"{" * 100_000):
        with pytest.raises(DecodeError):
            host.bytes(garbage)
    host.send(healthy(1)[0])
    assert host.counts()["dead_letters"] == 4
    assert host.counts()["calls"] == 1
    assert host.store.dead_letters(9)[-1]["data"] == b"\xff\x00garbage"


def test_spans_without_ids_are_told_to_their_sender(host: Host) -> None:
    good, bad = chat_span(1, [("user", "a")]), chat_span(2, [("user", "b")])
    bad["spanId"] = ""
    (result,) = host.send(request(good, bad))
    assert (result.rejected, result.message) == (1, "without a trace or span id, or unreadable")
    assert (host.counts()["rejected_spans"], host.counts()["ingest"], host.counts()["calls"]) == (1, {"invalid": 1}, 1)


def test_an_error_that_nobody_foresaw_costs_one_request(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.send(*repeater(2))
    before = host.described("s")
    process = host.engine.work.pipeline.process

    def broken(batch: Any, load: Any, **rest: Any) -> Any:
        process(batch, load, **rest)
        raise ZeroDivisionError

    monkeypatch.setattr(host.engine.work.pipeline, "process", broken)
    with pytest.raises(DecodeError, match="cannot be applied: ZeroDivisionError"):
        host.send(repeater(3)[2])
    monkeypatch.undo()
    assert (host.described("s"), host.blocked()) == (before, [])
    host.send(repeater(3)[2])
    assert host.blocked() == ["session:s"]


def test_a_session_that_cannot_be_stored_costs_its_own_calls_only(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.send(request(chat_span(1, [("user", "a")], session="bad")))
    snapshot = SessionState.snapshot

    def limited(self: SessionState) -> bytes:
        if self.key == "bad":
            raise OverflowError("a number of more than 64 bits")
        return snapshot(self)

    monkeypatch.setattr(SessionState, "snapshot", limited)
    spans = [chat_span(n, [("user", f"q{n}")], session=s) for n, s in enumerate(("bad", "good", "bad", "fine"), 2)]
    assert host.send(request(*spans)) == [ExportResult()]
    for name in ("good", "fine", "bad"):
        described = host.described(name)
        assert described is not None
        assert described["calls"] == 1
    assert (host.counts()["requests"], host.counts()["calls"], host.counts()["unapplied_calls"]) == (2, 3, 2)


def test_totals_beyond_64_bits_stay_at_their_bound(host: Host) -> None:
    for _ in range(2):
        host.store.commit(Changes(counts={"cost_nano_usd": 2**70}))
    assert host.store.totals()["cost_nano_usd"] == 2**63 - 1


def test_a_breaker_whose_cooldown_is_over_is_shown_as_half_open_and_told_as_it_was_decided(host: Host) -> None:
    """Guards know from its expiry; an operator is not to take it for one that refuses every call."""
    host.send(*repeater(3))
    (decision,) = host.engine.work.board.decisions()
    expires = decision.expires_at_ns
    assert expires is not None
    for now, state in ((expires - 1, "open"), (expires, "half_open")):
        assert [d.state for d in host.engine.work.board.shown(now)] == [state]
        assert host.engine.work.board.breakers(now) == {state: 1}
        described = host.described("s", now)
        assert described is not None
        assert described["decision"]["state"] == state
    present, _ = host.engine.work.board.follow()
    assert [b'"state":"open"' in told for told in present] == [False, True, False]


def test_when_the_storage_fails_the_sender_is_sent_back_and_nothing_has_happened(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.send(*repeater(2))
    before, listener = host.described("s"), host.hub.listen()

    def full(changes: Changes) -> None:
        raise UnavailableError("storage x: database or disk is full")

    monkeypatch.setattr(host.store, "commit", full)
    with pytest.raises(UnavailableError):
        host.send(repeater(3)[2])
    with pytest.raises(UnavailableError):
        host.engine.operator.reset("session:s", "", START_NS)
    assert (host.described("s"), host.blocked(), told(listener)) == (before, [], [])
    monkeypatch.undo()
    host.send(repeater(3)[2])
    assert host.blocked() == ["session:s"]
    assert host.counts()["unavailable"] == 1


def test_a_large_request_is_applied_in_parts_and_counts_once(host: Host) -> None:
    spans = [chat_span(n, [("user", f"{n} {'x' * 3000}")], session=f"{n % 7}") for n in range(2 * PART + 1)]
    host.send(request(*spans))
    assert (host.counts()["requests"], host.counts()["spans"], host.counts()["calls"]) == (1, len(spans), len(spans))
    host.send(request(*spans))
    assert (host.counts()["calls"], host.counts()["duplicates"]) == (len(spans), len(spans))


def test_a_sender_that_gives_up_on_a_large_request_leaves_no_reader_behind(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, another, read = threading.Event(), threading.Event(), host.engine._read
    readers = 0

    def slow(*request: Any) -> Any:
        nonlocal readers
        readers += 1
        assert readers == 1
        reading.set()
        assert another.wait(10)
        readers -= 1
        return read(*request)

    monkeypatch.setattr(host.engine, "_read", slow)
    data = json.dumps(request(chat_span(1, [("user", "x" * 300_000)]))).encode()

    async def give_up_and_come_again() -> None:
        first = asyncio.create_task(host.engine.ingest(data, "json", START_NS))
        await asyncio.to_thread(reading.wait, 10)
        first.cancel()
        second = asyncio.create_task(host.engine.ingest(data, "json", START_NS))
        await asyncio.sleep(0)  # the second has come, and waits
        another.set()
        await second
        assert first.cancelled()

    asyncio.run(give_up_and_come_again())
    assert host.counts()["calls"] == 1


def test_a_request_without_calls_is_taken(host: Host) -> None:
    span = chat_span(1, [])
    span["attributes"] = []
    assert host.send({}, request(), request(span)) == [ExportResult()] * 3
    assert host.counts() == {"requests": 3, "spans": 1, "ingest": {"other": 1}}


def test_a_reset_closes_the_breaker_forgets_what_was_counted_and_is_stored(host: Host) -> None:
    host.send(*repeater(3))
    listener = host.hub.listen()
    decision = host.engine.operator.reset("session:s", "alice", START_NS)
    assert decision is not None
    assert (decision.key, decision.state, decision.epoch) == ("session:s", "closed", 2)
    assert [(name, d["epoch"]) for name, d in told(listener)] == [("decision", 2)]
    host.restart()
    described = host.described("s")
    assert described is not None
    assert (host.blocked(), described["calls"], described["cost_nano_usd"], described["epoch"]) == ([], 0, 0, 2)
    assert host.engine.operator.reset("session:unknown", "", START_NS) is None


def test_idle_sessions_end_and_their_block_with_them(host: Host) -> None:
    host.send(*repeater(3), at_ns=START_NS)
    host.send(*healthy(1), at_ns=START_NS + DAY_NS)
    listener = host.hub.listen()
    assert host.engine.upkeep.expire(START_NS + DAY_NS) == 0
    assert host.engine.upkeep.expire(START_NS + DAY_NS + 1) == 1
    assert [(d["key"], d["state"], d["epoch"]) for _, d in told(listener)] == [("session:s", "closed", 2)]
    assert (host.described("s"), host.blocked(), host.store.sessions()) == (None, [], 1)
    host.restart()
    assert host.blocked() == []


def test_a_session_that_comes_back_after_its_end_has_a_higher_epoch(host: Host) -> None:
    """A Guard that knew the session obeys none but a higher one."""
    host.send(*repeater(3), at_ns=START_NS)
    host.engine.upkeep.expire(START_NS + 2 * DAY_NS)
    host.send(*repeater(3), at_ns=START_NS + 3 * DAY_NS)
    assert [d.epoch for d in host.engine.work.board.decisions()] == [3]


@pytest.mark.parametrize(("before", "after"), [("observe", "enforce"), ("enforce", "observe")])
def test_open_decisions_follow_the_mode_of_the_present_run(tmp_path: Path, before: str, after: str) -> None:
    host = Host(tmp_path / "s.db", mode=before)
    host.send(*repeater(3))
    host.restart(mode=after)
    host.restart(mode=after)
    assert [(d.mode, d.action, d.epoch) for d in host.engine.work.board.decisions()] == [(after, "block", 2)]
    described = host.described("s")
    assert described is not None
    assert described["decision"].get("mode", "observe") == after
    host.store.close()


def test_only_some_sessions_are_in_memory_and_all_are_known(host: Host) -> None:
    host.engine.work.sessions = LiveSessions(host.store, host.engine.work.counters, max_live=3)
    for name in "abcdefgh":
        host.send(*repeater(2, name))
    assert len(host.engine.work.sessions) == 3
    host.send(repeater(3, "a")[2])
    assert host.blocked() == ["session:a"]
    assert host.store.sessions() == 8


def test_a_stored_session_of_another_version_starts_afresh_under_what_stands_against_it(host: Host) -> None:
    host.send(*repeater(3))
    host.store._db.execute("UPDATE sessions SET state = x'00'")
    host.restart()
    host.send(*repeater(3))
    described = host.described("s")
    assert described is not None
    assert (described["calls"], described["epoch"], host.blocked()) == (3, 1, ["session:s"])
    assert host.counts()["unreadable_sessions"] >= 1


def of_an_earlier_build(state: bytes) -> bytes:
    """The same snapshot with another version in front."""
    body: list[Any] = msgpack.unpackb(state, raw=False, strict_map_key=False)
    return bytes(msgpack.packb([1, *body[1:]]))


def test_a_block_over_a_state_of_an_earlier_build_is_closed_by_a_good_probe(host: Host) -> None:
    """And by a bad one it stays, for twice as long."""
    host.send(*repeater(3))
    (before,) = host.engine.work.board.decisions()
    state = host.store.load("s") or b""
    host.store._db.execute("UPDATE sessions SET state = ?", (of_an_earlier_build(state),))
    host.restart()
    late_s = ((before.expires_at_ns or 0) - START_NS) // 10**9 + 1
    probe = chat_span(8, [("user", "What is the weather in Tokyo?")], at=late_s)
    host.send(request(probe), at_ns=START_NS + (late_s + 1) * 10**9)
    (again,) = host.engine.work.board.decisions()
    assert (again.epoch, again.rule) == (before.epoch + 1, before.rule)
    assert (again.expires_at_ns or 0) - again.issued_at_ns > 1.9 * ((before.expires_at_ns or 0) - before.issued_at_ns)
    probe = chat_span(9, [("user", "Something else altogether.")], at=late_s * 4)
    host.send(request(probe), at_ns=START_NS + late_s * 5 * 10**9)
    assert host.blocked() == []
    assert host.counts()["unreadable_sessions"] == 1


def test_everything_that_is_counted_is_explained(host: Host) -> None:
    host.send(*repeater(3), *repeater(1))
    with pytest.raises(DecodeError):
        host.bytes(b"x")
    names = {name.partition("/")[0] for name in host.engine.work.counters._values}
    assert names <= {*COUNTERS, *FAMILIES}
