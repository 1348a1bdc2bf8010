"""A Guard that has a signing key obeys nothing else: what is not signed is ignored and counted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from spanfuse import Guard
from spanfuse.decisions.table import DecisionTable
from spanfuse.subscribers.base import Snapshot
from spanfuse.testing import MemorySubscriber, block, closed, is_blocked, nudge
from spanfuse_schemas import Decision, Policy, PolicyNotice
from spanfuse_schemas.decision import LAST_EPOCH
from spanfuse_schemas.signing import Keyring
from tests.client.sse_server import SseServer
from tests.client.waiting import wait_until

OLD, NEW = "the key of last year", "the key of this year"


def signed(record: Decision | PolicyNotice, key: str = NEW) -> str:
    return Keyring([key]).signed(record.to_json()).decode()


@pytest.fixture
def server() -> Iterator[SseServer]:
    with SseServer() as running:
        yield running


class Listening:
    """A Guard with keys, and a server that tells it anything."""

    def __init__(self, server: SseServer, keys: Any) -> None:
        self._server = server
        self.guard = Guard(server.url, mode="enforce", signing_key=keys)
        assert self.guard.wait_ready(10)
        self._told = 0

    def hears(self, text: str, event: str = "decision") -> None:
        """Tell it, and wait until it has taken that in: an order after it has arrived."""
        self._told += 1
        last = block(f"team:{self._told}")
        self._server.send(self._server.event(event, text) + self._server.event("decision", signed(last)))
        wait_until(lambda: is_blocked(self.guard, team=str(self._told)))


@pytest.fixture
def listening(server: SseServer) -> Iterator[Listening]:
    made = Listening(server, f"{NEW}, {OLD}")
    yield made
    made.guard.close()


def test_what_is_signed_with_any_of_the_keys_is_obeyed(listening: Listening) -> None:
    listening.hears(signed(block("session:new")))
    listening.hears(signed(block("session:old"), OLD))
    assert is_blocked(listening.guard, session="new")
    assert is_blocked(listening.guard, session="old")
    assert listening.guard.counters.unsigned == 0


def test_nothing_else_is_obeyed_and_each_is_counted(listening: Listening, caplog: pytest.LogCaptureFixture) -> None:
    tampered = json.loads(signed(block("session:a"))) | {"key": "session:s"}
    for text in (
        block("session:s").to_json().decode(),
        json.dumps(tampered),
        signed(block("session:s"), "who knows which key"),
    ):
        listening.hears(text)
    assert is_blocked(listening.guard, session="s") is None
    assert listening.guard.counters.unsigned == 3
    assert len(caplog.records) == 1, "one line, not one a record"


def test_nobody_is_released_by_what_is_not_signed(listening: Listening) -> None:
    listening.hears(signed(block("session:s")))
    listening.hears(closed("session:s").to_json().decode())
    assert is_blocked(listening.guard, session="s")
    listening.hears(signed(closed("session:s")))
    assert is_blocked(listening.guard, session="s") is None


def test_a_policy_is_signed_as_well(listening: Listening) -> None:
    notice = PolicyNotice(key="policy:*", epoch=1, issued_at_ns=1, policy=Policy())
    listening.hears(notice.to_json().decode(), "policy")
    assert listening.guard._feed.policy is None
    listening.hears(signed(notice), "policy")
    assert listening.guard._feed.policy == notice
    assert listening.guard.counters.unsigned == 1


def test_a_snapshot_is_read_as_strictly() -> None:
    with SseServer(block("session:s")) as server, Guard(server.url, mode="enforce", signing_key=[NEW]) as guard:
        assert guard.wait_ready(10)
        assert guard.decisions() == []
        assert guard.counters.unsigned == 1


def test_without_a_key_a_signature_is_no_matter(server: SseServer) -> None:
    with Guard(server.url, mode="enforce") as guard:
        assert guard.wait_ready(10)
        server.send(server.event("decision", signed(block("session:s"))))
        wait_until(lambda: is_blocked(guard, session="s"))


def test_decisions_that_are_made_in_this_process_need_no_signature() -> None:
    guard = Guard(MemorySubscriber(block("session:s")), mode="enforce", signing_key=NEW)
    assert is_blocked(guard, session="s")


def test_the_key_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPANFUSE_SIGNING_KEY", "too short")
    with pytest.raises(ValueError, match="at least 16 characters"):
        Guard(MemorySubscriber())


class TestTombstones:
    """Nothing signs a tombstone, so that none releases anybody; a signed record that goes before it does."""

    table: DecisionTable

    def setup_method(self) -> None:
        self.table = DecisionTable(signed=True)

    def known(self) -> list[str]:
        return [decision.key for decision in self.table.decisions()]

    @staticmethod
    def last(key: str, at_ns: int) -> Decision:
        return closed(key, epoch=LAST_EPOCH).model_copy(update={"issued_at_ns": at_ns})

    def test_of_what_is_blocked_it_is_ignored_and_counted(self) -> None:
        self.table.apply(block("session:s"))
        self.table.forget("session:s")
        assert (self.known(), self.table.unsigned) == (["session:s"], 1)

    def test_the_record_before_it_ends_the_key_at_whatever_epoch(self) -> None:
        """As after a reset of something that no worker knows any more."""
        held = block("session:s", epoch=12)
        self.table.apply(held)
        self.table.apply(self.last("session:s", held.issued_at_ns + 1))
        self.table.forget("session:s")
        assert (self.known(), self.table.unsigned) == ([], 0)

    def test_after_it_the_key_begins_anew(self) -> None:
        held = block("session:s", epoch=12)
        self.table.apply(held)
        self.table.apply(closed("session:s", epoch=13))
        self.table.forget("session:s")
        assert self.table.apply(block("session:s", epoch=1))
        assert self.known() == ["session:s"]

    def test_what_was_signed_before_it_is_not_obeyed_when_somebody_sends_it_again(self) -> None:
        """Whoever may write the topic has read what was signed; of a closed key the epoch was forgotten with it."""
        held, end = block("session:s", epoch=12), closed("session:s", epoch=13)
        for decision in (held, end):
            self.table.apply(decision)
        self.table.forget("session:s")
        assert not self.table.apply(held)
        assert self.known() == []

    def test_nor_does_the_end_of_a_former_life_release_the_next(self) -> None:
        held = block("session:s", epoch=1)
        self.table.apply(held)
        assert not self.table.apply(self.last("session:s", held.issued_at_ns - 1))
        assert self.known() == ["session:s"]

    def test_a_snapshot_goes_by_the_same_rules(self) -> None:
        snapshot, taken = Snapshot(signed=True), DecisionTable()
        blocks = [block(f"session:{name}", epoch=12) for name in "abc"]
        for decision in (*blocks, nudge("agent:a"), self.last("session:b", blocks[1].issued_at_ns + 1)):
            snapshot.apply(decision)
        for name in "ab":
            snapshot.forget(f"session:{name}")

        class Sink:
            replace = staticmethod(taken.replace)

        snapshot.hand_over(Sink())  # type: ignore[arg-type]
        assert {d.key for d in taken.decisions()} == {"session:a", "session:c", "agent:a"}
