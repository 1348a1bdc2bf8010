"""Field reports: what is known holds while its source is away, and what is not is decided by scope, at one place."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse import Blocked, Guard
from spanfuse.testing import FakeClock, MemorySubscriber, block, is_blocked
from tests.client.waiting import wait_until

NOWHERE = "127.0.0.1:1"
DOWN: dict[str, dict[str, Any]] = {
    "kafka": {"subscriber": f"kafka://{NOWHERE}"},
    "api": {"subscriber": f"http://{NOWHERE}"},
    "ledger": {"subscriber": f"http://{NOWHERE}", "ledger": f"redis://{NOWHERE}"},
    "leases": {"subscriber": f"http://{NOWHERE}", "leases": f"redis://{NOWHERE}"},
}


@pytest.mark.parametrize("dependency", DOWN)
@pytest.mark.parametrize("way", ["check", "call"])
def test_r118_closed_holds_for_its_team_whatever_is_down_and_whichever_way_is_taken(
    dependency: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The team that asked for it is refused with the reason; the other passes, with a warning in the log."""

    def passes(team: str) -> Blocked | None:
        try:
            if way == "check":
                guard.check(team=team)
            else:
                with guard.call(team=team):
                    pass
        except Blocked as refusal:
            return refusal
        return None

    with Guard(on_unavailable={"team:x": "closed"}, **DOWN[dependency]) as guard:
        refusal = passes("x")
        assert refusal is not None
        assert (refusal.key, refusal.rule) == ("team:x", "unavailable")
        assert "control unavailable" in str(refusal)
        assert passes("y") is None
        wait_until(lambda: any("no decisions arrive" in record.getMessage() for record in caplog.records))
        assert guard.state == "connecting", "for a health endpoint"
        assert guard.counters.errors == 0


def test_r118_closed_may_be_for_one_kind_of_scope() -> None:
    """Detection stays open where only teams are closed."""
    guard = Guard(MemorySubscriber(ready=False), on_unavailable={"team": "closed"})
    assert is_blocked(guard, session="s", agent="a", user="u") is None
    assert is_blocked(guard, session="s", team="any")


class TestR119:
    """Three blocks are known when the source is lost for ten minutes; after five of them the Guard is stale."""

    def setup_method(self) -> None:
        self.clock = FakeClock()
        ends = self.clock.now_ns()
        known = [block(f"session:{m}", expires_at_ns=ends + m * 60 * 10**9) for m in (4, 8, 12)]
        self.source = MemorySubscriber(*known, silent=False)

    def guard(self, on_unavailable: Any, **settings: Any) -> Guard:
        guard = Guard(
            self.source,
            mode="enforce",
            staleness_s=300,
            on_unavailable=on_unavailable,
            now_ns=self.clock.now_ns,
            monotonic=self.clock.monotonic,
            **settings,
        )
        guard.start()
        return guard

    def held(self, guard: Guard) -> list[str]:
        """What is refused of the three, each asked twice, and a session that nobody has blocked."""
        return [name for name in ("4", "8", "12", "free") if [is_blocked(guard, session=name) for _ in range(2)][1]]

    def test_each_holds_until_its_own_end(self) -> None:
        guard = self.guard("open")
        assert self.held(guard) == ["4", "8", "12"]
        self.clock.advance(299)
        assert (guard.state, self.held(guard)) == ("ready", ["4", "8", "12"]), (
            "the first is half-open, its probe is out"
        )
        self.clock.advance(2)
        assert (guard.state, self.held(guard)) == ("stale", ["8", "12"])
        self.clock.advance(300)
        assert (guard.age_s, self.held(guard)) == (601, ["12"])

    def test_then_closed_refuses_the_rest(self) -> None:
        guard = self.guard("closed")
        self.clock.advance(299)
        assert "free" not in self.held(guard)
        self.clock.advance(2)
        assert self.held(guard) == ["4", "8", "12", "free"]
        self.source.alive()
        assert "free" not in self.held(guard)

    def test_a_redis_that_goes_takes_neither_blocks_nor_probes_with_it(self) -> None:
        """Budgets and leases lie in one store; without it a half-open breaker still lets one call of a process through."""
        guard = self.guard("open", ledger=f"redis://{NOWHERE}")
        self.clock.advance(290)
        self.source.alive()
        assert [is_blocked(guard, session="4") is None for _ in range(3)] == [True, False, False]
        assert is_blocked(guard, session="8")
