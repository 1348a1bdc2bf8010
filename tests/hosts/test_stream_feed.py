"""What a worker tells the read model: bounded, aside from detection, and caught up after an outage."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spanfuse_processor.core.pipeline import Outcome, Pipeline
from spanfuse_processor.core.scopes.stage import ScopeOutcome
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.hosts.stream import feed as feeding
from spanfuse_processor.hosts.stream.feed import Feed
from spanfuse_processor.hosts.stream.table import Stored
from spanfuse_schemas import CallBatch, Decision, Policy
from tests.support.agents import prompt
from tests.support.loops import in_loop


class FakeLink:
    """Takes commands, and is away when it is told to be."""

    partitions = 4

    def __init__(self) -> None:
        self.away = False
        self.answers: list[Any] = []
        self.commands: list[tuple[Any, ...]] = []

    def key(self, partition: int, what: str, name: bytes = b"") -> bytes:
        return f"{partition}:{what}:".encode() + name

    def shared(self, what: str) -> bytes:
        return what.encode()

    async def sent(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        if self.away:
            raise UnavailableError("Redis is away")
        self.commands += commands
        return self.answers

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [command for command in self.commands if command[0] in (name, name.encode())]


def fed() -> tuple[FakeLink, Feed]:
    link = FakeLink()
    return link, Feed(link, 3600, lambda: {"worker": "w-1", "at_ns": 7})  # type: ignore[arg-type]


def message(offset: int, partition: int = 0) -> Any:
    return SimpleNamespace(partition=partition, offset=offset, timestamp=1.75e9)


def outcome(count: int = 1) -> tuple[Outcome, SessionState]:
    state = SessionState("s")
    calls = tuple(prompt(f"question {n}", at=n) for n in range(count))
    return Pipeline(Policy()).process(CallBatch(calls=calls), lambda s: state, source="x", offset=0), state


def stored(feed: Feed, state: SessionState | ScopeState, name: str, offset: int = 0) -> None:
    feed.stored(name, state, Stored(offset, state.last_ns, state.epoch, state.snapshot()).pack(), 1)


@in_loop
async def test_messages_are_written_in_order_and_of_a_session_the_latest_alone() -> None:
    link, feed = fed()
    for offset in range(3):
        found, state = outcome()
        feed.applied(message(offset), found, "enforce")
        stored(feed, state, "s", offset)
    await feed.flush()
    assert [command[5] for command in link.named("EVAL")] == [0, 1, 2]
    (row,) = link.named("HSET")
    assert row[1] == b"1:session:s"
    assert row[5] == state.snapshot()
    assert (feed.waiting, feed.counts["shown_messages"]) == (0, 3)


@in_loop
async def test_while_redis_is_away_the_oldest_messages_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "MAX_CALLS", 10)
    monkeypatch.setattr(feeding, "MAX_LATEST", 2)
    link, feed = fed()
    link.away = True
    for offset in range(5):
        feed.applied(message(offset), outcome(3)[0], "enforce")
        stored(feed, outcome()[1], f"s{offset}")
    with pytest.raises(UnavailableError):
        await feed.flush()
    assert (feed.counts["dropped_messages"], feed.counts["dropped_rows"]) == (3, 3)
    link.away = False
    await feed.flush()
    assert [command[5] for command in link.named("EVAL")] == [3, 4]
    assert [command[1] for command in link.named("HSET")] == [b"1:session:s3", b"1:session:s4"]


@in_loop
async def test_what_redis_refuses_for_good_is_counted_and_stops_nothing() -> None:
    link, feed = fed()
    link.answers = [ValueError("ERR wrong type")]
    feed.applied(message(0), outcome()[0], "enforce")
    await feed.flush()
    assert (feed.waiting, feed.counts["refused_writes"]) == (0, 1)


@in_loop
async def test_what_waits_is_forgotten_with_its_partitions() -> None:
    link, feed = fed()
    feed.applied(message(0), outcome()[0], "enforce")
    stored(feed, outcome()[1], "s")
    feed.forget()
    await feed.flush()
    assert link.commands == []


@in_loop
async def test_a_session_that_is_over_is_taken_away_and_so_is_a_scope() -> None:
    link, feed = fed()
    stored(feed, outcome()[1], "s")
    feed.forgotten("sessions", "s", 1)
    feed.forgotten("scopes", "agent:research", 2)
    await feed.flush()
    assert link.named("HSET") == []
    assert [command[1:] for command in link.named("DEL")] == [
        (b"1:session:s", b"1:steps:s"),
        (b"2:scope:agent:research",),
    ]


@in_loop
async def test_messages_that_led_to_nothing_and_states_that_others_hold_are_not_kept() -> None:
    """An outcome refers to states that the worker has to be able to let go."""
    _, feed = fed()
    feed.applied(message(0), Outcome(), "enforce")
    feed.combined(message(1), [ScopeOutcome(touched={"agent:a": ScopeState("agent:a")})], "enforce")
    assert feed.waiting == 0
    found, _ = outcome()
    feed.applied(message(2), found, "enforce")
    assert [kept.touched for kept in feed._messages[0].outcomes] == [{}]


@in_loop
async def test_decisions_about_scopes_are_told_with_the_offset_of_their_charges() -> None:
    link, feed = fed()
    decision = Decision(key="agent:a", state="open", action="block", issued_at_ns=60 * 10**9)
    feed.combined(message(5, 3), [ScopeOutcome(decisions=[decision]), ScopeOutcome()], "enforce")
    stored(feed, ScopeState("agent:a"), "agent:a")
    await feed.flush()
    ((_, _, _, key, source, offset, *_),) = link.named("EVAL")
    assert (key, source, offset) == (b"3:applied:", "charges", 5)
    assert [command[1] for command in link.named("SET")] == [b"1:scope:agent:a"]


@in_loop
async def test_an_end_while_redis_is_away_takes_no_time() -> None:
    link, feed = fed()
    link.away = feed.away = True
    feed.applied(message(0), outcome()[0], "enforce")
    await feed.drain()
    assert feed.waiting == 1
