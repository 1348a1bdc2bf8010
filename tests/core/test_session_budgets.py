"""Budgets of sessions: beside `budget.session`, with units, periods and shares; and what operators order about either."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanfuse_processor.core.budgets import Ordered
from spanfuse_processor.core.pipeline import Outcome, Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Alias, Budget, BudgetOrder, Call, CallBatch, Decision, Tokens
from tests.support.agents import SECOND, START_NS, prompt, tool
from tests.support.purse import HOUR, USD, budget, under

FULL_HOUR = HOUR - (START_NS // SECOND) % HOUR


class Session:
    """One session under a policy with budgets."""

    def __init__(self, *budgets: Budget, **rules: dict[str, Any]) -> None:
        self.pipeline, self.state, self.count = Pipeline(under(*budgets, **rules)), SessionState("s"), 0

    def _process(self, batch: CallBatch) -> Outcome:
        return self.pipeline.process(batch, lambda _: self.state, source="test", offset=self.count)

    def call(self, usd: float = 0, *, at: float | None = None, **fields: Any) -> Outcome:
        """A model call that ends `at` seconds."""
        self.count += 1
        found = prompt(
            f"Ask {self.count}.", at=self.count if at is None else at, lasts=0, cost=round(usd * USD), **fields
        )
        return self.take(found)

    def take(self, call: Call) -> Outcome:
        return self._process(CallBatch(calls=(call,)))

    def order(self, name: str, action: str, amount: int = 0, *, at: float = 500, id: str = "", **more: Any) -> Outcome:
        self.count += 1
        made = {"id": id or str(self.count), "at_ns": START_NS + round(at * SECOND), "actor": "ops", **more}
        found = BudgetOrder(**{"scope": "session:s", "budget": name, "action": action, "amount": amount, **made})
        return self._process(CallBatch(orders=(found,)))

    @property
    def standing(self) -> Decision | None:
        return self.state.decision

    def row(self, name: str) -> dict[str, Any]:
        rows = self.pipeline.accounts(self.state, START_NS + 500 * SECOND)
        return next(row for row in rows if row["budget"] == name)


def did(outcome: Outcome) -> Ordered:
    (ordered,) = outcome.orders
    return ordered


def states(outcome: Outcome) -> list[str]:
    return [d.state for d in outcome.decisions]


def test_tokens_of_a_session_are_told_by_share_and_blocked_at_the_limit() -> None:
    session = Session(budget("session/tokens", limit_tokens=1000))
    out = [session.call(tokens=Tokens(input=200, output=100)) for _ in range(4)]
    assert [[d.action for d in o.detections] for o in out] == [[], ["warn"], ["warn", "warn"], ["block"]]
    assert session.standing is not None
    assert (session.standing.rule, session.standing.expires_at_ns) == ("budget.session/tokens", None)
    assert "1,200 tokens of 1,000 tokens" in session.standing.message
    assert session.row("session/tokens")["status"] == "exhausted"


def test_a_call_that_crosses_two_shares_gives_two_detections_of_their_own() -> None:
    session = Session(budget("session/steps", limit_usd=1))
    found = session.call(0.95).detections
    assert len({d.id for d in found}) == len(found) == 3


def test_an_hour_of_a_session_is_over_without_a_probe() -> None:
    session = Session(budget("session/hourly", limit_usd=1, period="hourly"))
    session.call(1.5, at=1)
    assert session.standing is not None
    assert (session.standing.lapses, session.standing.expires_at_ns) == (True, START_NS + FULL_HOUR * SECOND)
    assert states(session.call(0.2, at=FULL_HOUR)) == ["closed"]
    assert session.standing is None
    assert session.row("session/hourly")["spent"] == 0.2 * USD


def test_while_an_hour_is_spent_more_calls_change_nothing() -> None:
    session = Session(budget("session/hourly", limit_usd=1, period="hourly"))
    session.call(1.5, at=1)
    assert [session.call(1.5, at=at).decisions for at in (2, 3, 4)] == [[], [], []]


def test_a_tool_that_ends_in_the_next_hour_releases_too() -> None:
    session = Session(budget("session/hourly", limit_usd=1, period="hourly"))
    session.call(1.5, at=1)
    assert states(session.take(tool("ls", {}, "x", at=FULL_HOUR))) == ["closed"]


def test_of_an_hour_and_a_total_the_one_that_holds_longer_stands() -> None:
    session = Session(budget("session/hourly", limit_usd=1, period="hourly"), budget("session/all", limit_usd=2))
    assert [d.rule for d in session.call(1.5, at=1).decisions] == ["budget.session/hourly"]
    assert [d.rule for d in session.call(1, at=2).decisions] == ["budget.session/all"]
    assert session.call(1, at=FULL_HOUR).decisions == []


def test_a_loop_does_not_unlock_what_is_spent_up() -> None:
    session = Session(budget("session/all", limit_steps=2))
    session.call()
    session.call()
    for _ in range(5):
        session.take(prompt("again", at=10 + session.count))
    assert session.standing is not None
    assert session.standing.rule == "budget.session/all"


def test_the_cap_of_a_session_is_extended_and_it_goes_on() -> None:
    session = Session(budget_session={"limit_usd": 1})
    session.call(0.99)
    assert states(session.call(0.05)) == ["open"]
    extended = session.order("session", "extend", USD)
    assert states(extended) == ["closed"]
    assert extended.decisions[0].message == "Budget `session`: extend by ops."
    assert did(extended).account["limit"] == 2 * USD
    assert session.call(0.05).decisions == []
    assert states(session.call(1)) == ["open"]
    assert session.standing is not None
    assert session.standing.evidence.threshold == 2


@pytest.mark.parametrize("name", ["session", "session/all"])
def test_a_lowered_limit_blocks_at_once_and_a_raised_one_releases_at_once(name: str) -> None:
    rules: dict[str, Any] = {"budget_session": {"limit_usd": 9}} if name == "session" else {}
    session = Session(*([] if rules else [budget("session/all", limit_usd=9)]), **rules)
    session.call(3)
    assert states(session.order(name, "set", 2 * USD)) == ["open"]
    assert session.standing is not None
    assert session.standing.rule == f"budget.{name}"
    assert states(session.order(name, "set", 4 * USD)) == ["closed"]


def test_a_reset_of_a_budget_begins_it_anew() -> None:
    session = Session(budget("session/all", limit_usd=1))
    session.call(2)
    assert states(session.order("session/all", "reset")) == ["closed"]
    assert session.row("session/all")["spent"] == 0
    assert session.call(0.1).decisions == []


def test_an_order_is_carried_out_once_and_outlives_a_reset_of_the_session() -> None:
    session = Session(budget("session/all", limit_usd=1))
    session.call(2)
    assert did(session.order("session/all", "extend", USD, id="x")).done
    assert not did(session.order("session/all", "extend", USD, id="x")).done
    session.pipeline.reset(session.state, START_NS, "ops")
    assert session.row("session/all") | {"limit": 2 * USD, "spent": 0} == session.row("session/all")


def test_orders_about_what_nobody_knows_are_refused_and_change_nothing() -> None:
    session = Session(budget("session/all", limit_usd=1))
    out = session.order("session/all", "extend", USD)
    assert (did(out).done, did(out).why, out.touched) == (False, "nothing is known of it", {})
    session.call()
    assert "no budget session/none" in did(session.order("session/none", "extend", USD)).why


def test_accounts_and_orders_are_in_the_snapshot() -> None:
    session = Session(budget("session/all", limit_usd=1))
    session.call(0.7)
    session.order("session/all", "extend", USD)
    again = SessionState.restore(session.state.snapshot())
    before = session.row("session/all")
    session.state = again
    assert session.row("session/all") == before


def test_a_session_without_a_budget_has_no_accounts() -> None:
    session = Session(budget("session/vip", match="vip-*", limit_usd=1))
    session.call(9)
    assert session.state.budgets is None


def test_what_was_spent_under_a_trace_counts_to_its_session_once_that_is_known() -> None:
    """Each half fits; together they are the limit, and the block stands at once."""
    pipeline, found = Pipeline(under(budget("session/all", limit_usd=1))), dict[str, SessionState]()
    trace, into = "a" * 32, "run"
    made = [
        prompt(f"Ask {i}.", at=i, lasts=0, cost=USD * 3 // 10, session=session, trace_id=trace)
        for i, session in enumerate((f"trace:{trace}", f"trace:{trace}", into, into))
    ]
    alias = Alias(
        id="0001", trace_id=trace, session=f"trace:{trace}", into=into, from_ns=START_NS, to_ns=START_NS + 9 * SECOND
    )
    out = [
        pipeline.process(batch, lambda key: found.setdefault(key, SessionState(key)), source="p", offset=offset)
        for offset, batch in enumerate((CallBatch(calls=tuple(made)), CallBatch(aliases=(alias,))))
    ]
    assert [[d.key for d in o.decisions] for o in out] == [[], ["session:run"]]
    (row,) = pipeline.accounts(found[into], START_NS)
    assert row["spent"] == USD * 12 // 10


def test_a_day_that_is_spent_up_stands_in_the_place_of_its_hour() -> None:
    session = Session(
        budget("session/hourly", limit_usd=1, period="hourly"), budget("session/daily", limit_usd=2, period="daily")
    )
    assert [d.rule for d in session.call(1.5, at=1).decisions] == ["budget.session/hourly"]
    assert [d.rule for d in session.call(1, at=2).decisions] == ["budget.session/daily"]
    assert session.call(0.1, at=FULL_HOUR).decisions == []


BUDGETS = (
    budget("session/hourly", limit_usd=3e-7, period="hourly"),
    budget("session/daily", limit_usd=9e-7, period="daily", time_zone="Asia/Kathmandu"),
    budget("session/all", limit_steps=20),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 150)), min_size=1, max_size=30))
def test_a_session_is_blocked_exactly_while_all_of_a_running_period_is_spent(calls: list[tuple[int, int]]) -> None:
    """Calls end in any order, over ten hours; each costs some nano-dollars."""
    session, clock_ns, told = Session(*BUDGETS), 0, Counter[str]()
    spent = Counter[tuple[str, int]]()
    for quarter, nano in calls:
        before = session.state.calls
        out = session.call(nano / USD, at=quarter * HOUR / 4, response=f"{session.count + 1:016x}")
        if session.state.calls == before:
            continue  # later than all that the session remembers
        at_ns = START_NS + quarter * HOUR // 4 * SECOND
        clock_ns = max(clock_ns, at_ns)
        for b in BUDGETS:
            spent[b.name, b.period_at(at_ns).start_ns] += 1 if b.unit == "steps" else nano
        spent_up = {f"budget.{b.name}" for b in BUDGETS if spent[b.name, b.period_at(clock_ns).start_ns] >= b.limit}
        assert (session.standing.rule in spent_up) if session.standing is not None else not spent_up
        told.update(f"{d.rule} {d.evidence.threshold} {d.evidence.since_ns}" for d in out.detections)
        session.state = SessionState.restore(session.state.snapshot())
    assert sum(n for key, n in told.items() if key.startswith("budget.session/all")) <= 4
