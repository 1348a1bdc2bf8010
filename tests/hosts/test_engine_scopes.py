"""Scopes in the embedded host: stored with the batch that charged them, told with its decisions, listed, reset, forgotten."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spanfuse_processor.config import Config
from spanfuse_processor.core.scopes.state import LASTING_S, ScopeState
from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.exporters.hub import Hub
from spanfuse_processor.hosts.engine import Engine
from spanfuse_processor.hosts.store import Changes, Store
from tests.support.recorded import START_NS, attribute, chat_span, request

DAY_NS = 24 * 3600 * 10**9
AGENT = "agent:recorded"
SETTINGS: dict[str, Any] = {
    "service": {"mode": "enforce"},
    "detectors": {"agent.breaker": {"mode": "block", "sessions": 2}},
}


class Host:
    """An engine that can be started again on the same file."""

    def __init__(self, path: Path) -> None:
        self.path, self.hub = path, Hub()
        self.start()

    def start(self, **service: Any) -> None:
        self.store = Store(str(self.path))
        settings = {**SETTINGS, "service": {**SETTINGS["service"], **service}}
        self.engine = Engine(Config.model_validate(settings), self.store, self.hub)

    def restart(self, **service: Any) -> None:
        """As after kill -9: nothing is told to end."""
        self.store._database.close()
        self.start(**service)

    def send(self, *spans: dict[str, Any], at_ns: int = START_NS) -> None:
        asyncio.run(self.engine.ingest(json.dumps(request(*spans)).encode(), "json", at_ns))

    def blocked(self) -> list[str]:
        return [d.key for d in self.engine.work.board.decisions() if d.action == "block"]

    def scope(self, key: str) -> ScopeState:
        state = self.engine.work.scopes.known(key)
        assert state is not None
        return state


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path / "spanfuse.db")
    yield made
    made.store.close()


def stuck(session: str, start: int = 0) -> list[dict[str, Any]]:
    """Spans of a session that asks the same three times."""
    return [chat_span(start + n, [("user", "Are we there yet?")], session=session) for n in range(3)]


def named(span: dict[str, Any], agent: str) -> dict[str, Any]:
    kept = [a for a in span["attributes"] if a["key"] != "gen_ai.agent.name"]
    return {**span, "attributes": [*kept, attribute("gen_ai.agent.name", agent)]}


def test_an_agent_of_which_enough_sessions_were_stopped_is_stopped_and_stays_so_over_a_restart(host: Host) -> None:
    host.send(*(named(s, "recorded") for s in stuck("a")))
    assert host.blocked() == ["session:a"]
    host.send(*(named(s, "recorded") for s in stuck("b")))
    assert sorted(host.blocked()) == [AGENT, "session:a", "session:b"]
    host.restart()
    assert sorted(host.blocked()) == [AGENT, "session:a", "session:b"]
    assert host.scope(AGENT).calls == 6


def test_the_same_spans_again_charge_nothing(host: Host) -> None:
    spans = [named(s, "recorded") for s in stuck("a")]
    host.send(*spans)
    before = host.scope(AGENT).snapshot()
    host.send(*spans)
    host.restart()
    host.send(*spans)
    assert host.scope(AGENT).snapshot() == before


def test_what_the_storage_does_not_take_is_charged_once_it_does(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.send(*(named(s, "recorded") for s in stuck("a")))

    def full(changes: Changes) -> None:
        raise UnavailableError("storage x: database or disk is full")

    monkeypatch.setattr(host.store, "commit", full)
    for _ in range(3):
        with pytest.raises(UnavailableError):
            host.send(*(named(s, "recorded") for s in stuck("b")))
    assert host.scope(AGENT).calls == 3
    monkeypatch.undo()
    host.send(*(named(s, "recorded") for s in stuck("b")))
    assert host.scope(AGENT).calls == 6
    assert AGENT in host.blocked()


def test_a_reset_of_an_agent_closes_its_breaker_and_is_stored(host: Host) -> None:
    for session in ("a", "b"):
        host.send(*(named(s, "recorded") for s in stuck(session)))
    decision = host.engine.operator.reset(AGENT, "alice", START_NS)
    assert decision is not None
    assert (decision.key, decision.state, decision.epoch) == (AGENT, "closed", 2)
    host.restart()
    assert AGENT not in host.blocked()
    assert (host.scope(AGENT).epoch, host.scope(AGENT).calls) == (2, 6)
    assert host.engine.operator.reset("agent:unknown", "", START_NS) is None


def test_a_block_of_an_agent_whose_state_cannot_be_read_is_closed_by_a_good_probe(host: Host) -> None:
    for session in ("a", "b"):
        host.send(*(named(s, "recorded") for s in stuck(session)))
    (block,) = [d for d in host.engine.work.board.decisions() if d.key == AGENT]
    host.store._db.execute("UPDATE scopes SET state = x'00'")
    host.restart()
    assert AGENT in host.blocked()
    late_s = ((block.expires_at_ns or 0) - START_NS) // 10**9 + 1
    probe = chat_span(9, [("user", "Hello.")], session="c", at=late_s)
    host.send(named(probe, "recorded"), at_ns=START_NS + (late_s + 1) * 10**9)
    assert AGENT not in host.blocked()
    assert host.scope(AGENT).epoch == block.epoch + 1


def test_agents_and_models_are_listed_with_what_they_came_to(host: Host) -> None:
    host.send(*(named(s, "recorded") for s in stuck("a")))
    host.send(named(chat_span(9, [("user", "Hello.")], session="c"), "other"))
    rows = asyncio.run(host.engine.views.agents())
    assert [(r["agent"], r["calls"], r["loops"], r["trips"]) for r in rows] == [
        ("recorded", 3, 1, 1),
        ("other", 1, 0, 0),
    ]
    assert rows[0]["usual"]["sessions"] == 1
    (model,) = asyncio.run(host.engine.views.models())
    assert (model["calls"], model["sessions"], model["loops_per_1000_calls"]) == (4, 2, 250.0)


def test_a_list_of_agents_is_read_beside_the_loop(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions do not wait for it, however many agents there are."""
    host.send(*(named(s, "recorded") for s in stuck("a")))
    restore, threads = ScopeState.restore, set[int]()

    def watched(data: bytes) -> ScopeState:
        threads.add(threading.get_ident())
        return restore(data)

    monkeypatch.setattr(ScopeState, "restore", watched)
    assert len(asyncio.run(host.engine.views.agents())) == len(asyncio.run(host.engine.views.models())) == 1
    assert threads
    assert threading.get_ident() not in threads


def test_scopes_of_which_nothing_is_heard_are_forgotten_and_their_block_with_them(host: Host) -> None:
    for session in ("a", "b"):
        host.send(*(named(s, "recorded") for s in stuck(session)))
    later = START_NS + DAY_NS + 1
    while host.engine.upkeep.expire(later):
        pass
    assert host.blocked() == []
    assert host.engine.work.scopes.known(AGENT) is None
    assert host.engine.work.scopes.known("global:*") is not None
    assert host.engine.work.scopes.load(AGENT).epoch == 2
    while host.engine.upkeep.expire(START_NS + (LASTING_S + 1) * 10**9):
        pass
    assert host.engine.work.scopes.known("global:*") is None


def test_a_block_of_an_agent_follows_the_mode_of_the_deployment(host: Host) -> None:
    for session in ("a", "b"):
        host.send(*(named(s, "recorded") for s in stuck(session)))
    host.restart(mode="observe")
    assert {d.key: (d.mode, d.epoch) for d in host.engine.work.board.decisions()}[AGENT] == ("observe", 2)
    assert host.scope(AGENT).epoch == 2


def test_a_file_of_an_earlier_build_gets_the_table_it_lacks(tmp_path: Path) -> None:
    path = str(tmp_path / "old.db")
    store = Store(path)
    store._db.executescript("DROP TABLE scopes;")
    store.close()
    store = Store(path)
    assert store.load_scope("agent:a") is None
    store.close()
