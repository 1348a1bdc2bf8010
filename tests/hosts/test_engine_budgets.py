"""Budgets in the embedded host: stored with what was spent, released by the clock, by orders and by another configuration."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spanfuse_processor.config import Config
from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.exporters.hub import Hub
from spanfuse_processor.hosts.engine import Engine
from spanfuse_processor.hosts.store import Changes, Store
from spanfuse_schemas import BudgetOrder
from tests.support.purse import DAY, MIDNIGHT
from tests.support.recorded import SECOND, START_NS, attribute, chat_span, request

BUDGETS: dict[str, Any] = {
    "user/daily": {"limit_steps": 3, "period": "daily"},
    "team": {"limit_steps": 5},
}


class Host:
    """An engine with budgets, which can be started again on the same file."""

    def __init__(self, path: Path) -> None:
        self.path, self.count = path, 0
        self.start()

    def start(self, **budgets: Any) -> None:
        self.store = Store(str(self.path))
        settings = {"service": {"mode": "enforce"}, "budgets": {**BUDGETS, **budgets}}
        self.engine = Engine(Config.model_validate(settings), self.store, Hub())

    def restart(self, **budgets: Any) -> None:
        """As after kill -9."""
        self.store._database.close()
        self.start(**budgets)

    def call(self, user: str = "u", team: str = "t", *, at: float = 0, times: int = 1) -> None:
        """Calls, one second after the other."""
        for _ in range(times):
            self.count += 1
            span = chat_span(self.count, [("user", f"Ask {self.count}.")], at=at + self.count, session=f"s{self.count}")
            span["attributes"] += [attribute("user.id", user), attribute("spanfuse.team", team)]
            asyncio.run(self.engine.ingest(json.dumps(request(span)).encode(), "json", START_NS + DAY * SECOND))

    def order(self, scope: str, budget: str, action: str, amount: int = 0, **fields: Any) -> bool:
        self.count += 1
        made = {"id": str(self.count), "at_ns": START_NS + 100 * SECOND, **fields}
        found = BudgetOrder(**{"scope": scope, "budget": budget, "action": action, "amount": amount, **made})
        return self.engine.operator.order(found).done

    def blocked(self) -> list[str]:
        return sorted(d.key for d in self.engine.work.board.decisions() if d.action == "block")

    def spent(self, scope: str) -> list[tuple[str, int, str]]:
        return [(r["budget"], r["spent"], r["status"]) for r in self.engine.views.accounts(scope, START_NS)]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path / "spanfuse.db")
    yield made
    made.store.close()


def test_what_was_spent_and_what_is_blocked_outlive_a_crash(host: Host) -> None:
    host.call(times=2)
    host.restart()
    host.call()
    assert host.blocked() == ["user:u"]
    host.call("other", times=2)
    assert host.blocked() == ["team:t", "user:u"]
    host.restart()
    assert "team:t" in host.blocked()
    assert host.spent("team:t") == [("team", 5, "exhausted")]
    assert host.spent("user:never-seen") == [("user/daily", 0, "ok")]


def test_a_new_day_releases_with_the_next_tick(host: Host) -> None:
    host.call(times=3)
    host.engine.upkeep.tick(START_NS + (MIDNIGHT - 1) * SECOND)
    assert host.blocked() == ["user:u"]
    host.engine.upkeep.tick(START_NS + MIDNIGHT * SECOND)
    assert host.blocked() == []
    state = host.engine.work.scopes.known("user:u")
    assert state is not None
    assert state.standing is None


def test_a_day_that_ended_while_the_host_was_down_is_over_when_it_is_up(host: Host) -> None:
    """The recordings are of the past, and so is their day."""
    host.call(times=3)
    host.restart()
    assert host.blocked() == []


def test_orders_are_carried_out_at_once_and_stored(host: Host) -> None:
    host.call(times=3)
    assert host.order("user:u", "user/daily", "extend", 2)
    assert host.blocked() == []
    assert not host.order("user:u", "team", "extend", 2)
    assert (host.engine.work.counters["budget_orders"], host.engine.work.counters["refused_orders"]) == (1, 1)
    assert host.order("team:t", "team", "set", 1)
    host.restart()
    assert host.blocked() == ["team:t"]
    assert host.engine.views.accounts("user:u", START_NS)[0]["limit"] == 5
    assert host.engine.work.scopes.known("user:never-seen") is None


def test_an_extension_that_ends_blocks_with_the_next_tick(host: Host) -> None:
    host.call(times=3)
    assert host.order("user:u", "user/daily", "extend", 2, expires_at_ns=START_NS + 200 * SECOND)
    host.engine.upkeep.tick(START_NS + 199 * SECOND)
    assert host.blocked() == []
    host.engine.upkeep.tick(START_NS + 200 * SECOND)
    assert host.blocked() == ["user:u"]


def test_a_limit_that_was_raised_or_removed_in_the_configuration_holds_nobody_back(host: Host) -> None:
    host.call(times=5)
    assert host.blocked() == ["team:t", "user:u"]
    host.restart(team={"limit_steps": 9})
    assert host.blocked() == []


def test_a_reset_of_the_key_is_not_undone_by_the_next_call(host: Host) -> None:
    host.call(times=3)
    decision = host.engine.operator.reset("user:u", "ops", START_NS + 10 * SECOND)
    assert decision is not None
    assert decision.message == "Reset by ops. Begun anew: user/daily."
    host.call()
    assert host.blocked() == []


def test_an_order_that_cannot_be_stored_has_done_nothing(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.call(times=3)

    def full(changes: Changes) -> None:
        raise UnavailableError("disk full")

    monkeypatch.setattr(host.store, "commit", full)
    with pytest.raises(UnavailableError):
        host.order("user:u", "user/daily", "extend", 2)
    monkeypatch.undo()
    assert host.blocked() == ["user:u"]
    assert host.order("user:u", "user/daily", "extend", 2)


def test_accounts_are_kept_as_long_as_their_period_and_no_longer(host: Host) -> None:
    host.call(times=1)
    while host.engine.upkeep.expire(START_NS + 2 * DAY * SECOND):
        pass
    assert host.engine.work.scopes.known("user:u") is not None
    while host.engine.upkeep.expire(START_NS + 5 * DAY * SECOND):
        pass
    assert host.engine.work.scopes.known("user:u") is None
    assert host.engine.work.scopes.known("team:t") is not None, "a total is kept for a year"


def test_a_session_is_extended_and_an_hour_of_it_ends_with_the_tick(tmp_path: Path) -> None:
    host = Host(tmp_path / "spanfuse.db")
    host.restart(**{"session/hourly": {"limit_steps": 1, "period": "hourly"}, "session/all": {"limit_steps": 2}})
    host.call()
    assert host.blocked() == ["session:s1"]
    host.engine.upkeep.tick(START_NS + 3600 * SECOND)
    assert host.blocked() == []
    assert host.order("session:s1", "session/all", "set", 1)
    assert host.blocked() == ["session:s1"]
    assert host.order("session:s1", "session/all", "extend", 3)
    assert host.blocked() == []
    assert [r["limit"] for r in host.engine.views.accounts("session:s1", START_NS)] == [1, 4]
    assert not host.order("session:unknown", "session/all", "extend", 3)
    assert host.engine.work.sessions.known("unknown") is None
    host.store.close()


def test_a_session_that_a_limit_of_the_configuration_held_is_released_when_it_is_raised(tmp_path: Path) -> None:
    host = Host(tmp_path / "spanfuse.db")
    host.restart(session={"limit_usd": 1e-6})
    host.call()
    assert host.blocked() == ["session:s1"]
    host.restart(session={"limit_usd": 5e-6})
    assert host.blocked() == ["session:s1"]
    host.restart(session={"limit_usd": 5})
    assert host.blocked() == []
    host.store.close()
