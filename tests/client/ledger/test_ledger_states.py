"""Any interleaving of reservations, settlements, releases, expiries and orders: the books are those of a simple model."""

from __future__ import annotations

import itertools
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from spanfuse.ledger import Account, Amounts, Ledger, RedisLedger, Refused, SqliteLedger, UnknownCall
from spanfuse.testing import FakeClock
from spanfuse_schemas.budget import BudgetOrder
from tests.services.redis_server import RedisService
from tests.support.budgets import defined, strict

LIMITS = {"user": 100, "team": 150}
"""Nano-dollars; the user's for good, the team's by the hour."""
HOLD_S = 600.0
CALLS = st.integers(0, 11).map("call-{}".format)
AMOUNTS = st.integers(0, 60)
_tenants = itertools.count()


@dataclass
class Held:
    """A call of the model."""

    accounts: list[str]
    amount: int
    until_s: float
    """While it is held: when that expires; later: when it is forgotten."""
    state: str = "held"

    def end(self, state: str, now_s: float) -> None:
        self.state, self.until_s = state, now_s + (3600 if state == "settled" else 24 * 3600)


@dataclass
class Model:
    """The books as they should be."""

    now_s: float = 1_800_000_000.0
    calls: dict[str, Held] = field(default_factory=dict)
    spent: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    late: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Charged beyond what was held for it at that time."""
    limit: dict[str, int] = field(default_factory=lambda: dict(LIMITS))

    def account(self, scope: str) -> str:
        name = f"{scope}|{scope.partition(':')[0]}"
        return name if scope.startswith("user") else f"{name}|{int(self.now_s // 3600 * 3600)}"

    def held(self, account: str) -> int:
        return sum(c.amount for c in self.calls.values() if account in c.accounts and c.state == "held")

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        for name, call in list(self.calls.items()):
            if call.until_s <= self.now_s and call.state == "held":
                call.end("expired", self.now_s)
            elif call.until_s <= self.now_s:
                del self.calls[name]

    def limit_of(self, account: str) -> int:
        return self.limit[account.partition(":")[0]]

    def room(self, account: str) -> int:
        return self.limit_of(account) - self.spent[account] - self.held(account)


class Books(RuleBasedStateMachine):
    """What happens to a ledger, and to the model."""

    def __init__(self, make: Callable[[FakeClock], Ledger]) -> None:
        super().__init__()
        self.model = Model()
        self.clock = FakeClock(self.model.now_s)
        self.ledger = make(self.clock)
        self.orders = itertools.count()
        self.lowered = False
        self._define()

    def _define(self) -> None:
        limits = {scope: limit / 1e9 for scope, limit in LIMITS.items()}
        defined(
            self.ledger,
            strict("user", limit_usd=limits["user"]),
            strict("team", "team", limit_usd=limits["team"], period="hourly"),
        )

    @rule(call=CALLS, amount=AMOUNTS, user=st.sampled_from("uv"), team=st.booleans())
    def reserve(self, call: str, amount: int, user: str, team: bool) -> None:
        model, who = self.model, {"user": user} | ({"team": "t"} if team else {})
        accounts = [model.account(f"{kind}:{name}") for kind, name in who.items()]
        known = model.calls.get(call)
        stands = known is not None and known.state in ("settled", "held")
        fits = all(amount <= model.room(account) for account in accounts)
        try:
            self.ledger.reserve(call, who, Amounts(amount), HOLD_S)
        except Refused as refused:
            assert not stands
            assert not fits
            refusal = refused.refusal
            tight = next(a for a in accounts if a.startswith(refusal.scope + "|"))
            assert (refusal.spent, refusal.held) == (model.spent[tight], model.held(tight))
            assert refusal.asked > refusal.limit - refusal.spent - refusal.held
            return
        assert stands or fits
        if not stands:
            model.calls[call] = Held(accounts, amount, model.now_s + HOLD_S)
            assert all(model.room(account) >= 0 for account in accounts)

    @rule(call=CALLS, share=st.integers(0, 100), more=st.sampled_from([0, 0, 0, 7]))
    def settle(self, call: str, share: int, more: int) -> None:
        """For what was held, less, or a little more."""
        known = self.model.calls.get(call)
        if known is None:
            with pytest.raises(UnknownCall):
                self.ledger.settle(call, Amounts(share))
            return
        amount = known.amount * share // 100 + more
        settled = self.ledger.settle(call, Amounts(amount))
        assert settled.charged == (known.state != "settled")
        if settled.charged:
            for account in known.accounts:
                held = known.amount if known.state == "held" else 0
                self.model.spent[account] += amount
                self.model.late[account] += max(0, amount - held)
            known.end("settled", self.model.now_s)

    @rule(call=CALLS)
    def release(self, call: str) -> None:
        known = self.model.calls.get(call)
        assert self.ledger.release(call) == (known is not None and known.state == "held")
        if known is not None and known.state == "held":
            known.end("released", self.model.now_s)

    @rule(seconds=st.sampled_from([1, 200, 601, 3600]))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.model.wait(seconds)

    @rule(more=st.integers(1, 50))
    def raise_the_limit(self, more: int) -> None:
        self._set(self.model.limit["user"] + more)

    @precondition(lambda self: self.model.limit["user"] > 20)
    @rule(less=st.integers(1, 20))
    def lower_the_limit(self, less: int) -> None:
        self.lowered = True
        self._set(self.model.limit["user"] - less)

    def _set(self, limit: int) -> None:
        self.model.limit["user"] = limit
        for user in "uv":
            order = BudgetOrder(
                id=f"o{next(self.orders)}", scope=f"user:{user}", budget="user", action="set", amount=limit, at_ns=0
            )
            assert self.ledger.order(order)
            assert not self.ledger.order(order)

    @invariant()
    def the_books_are_those_of_the_model(self) -> None:
        for found in self.ledger.accounts():
            model = self.model
            assert (found.spent, found.held) == (model.spent[found.account], model.held(found.account))
            assert found.limit == model.limit_of(found.account)
            if not self.lowered:
                assert found.spent + found.held <= found.limit + model.late[found.account]

    def teardown(self) -> None:
        """In the end nothing is held, and all that was settled is in the books."""
        self.clock.advance(HOLD_S + 1)
        accounts = self.ledger.accounts()
        assert not any(account.held for account in accounts)
        assert sum(account.spent for account in accounts) == sum(self.model.spent.values())
        self.ledger.close()


def test_the_books_of_sqlite_balance_whatever_happens() -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = (Path(folder) / f"{n}.sqlite" for n in itertools.count())
        _run(lambda clock: SqliteLedger(next(paths), now_ns=clock.now_ns), examples=40)


@pytest.mark.integration
def test_the_books_of_redis_balance_whatever_happens(redis_service: RedisService) -> None:
    def make(clock: FakeClock) -> Ledger:
        return RedisLedger(redis_service.url, f"s-{clock.now_ns()}-{next(_tenants)}", timeout_s=5, now_ns=clock.now_ns)

    with _no_leftovers(redis_service.url):
        _run(make, examples=60)


def _run(make: Callable[[FakeClock], Ledger], examples: int) -> None:
    often = settings(
        settings.get_profile("spanfuse"),
        max_examples=examples,
        stateful_step_count=40,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(lambda: Books(make), settings=often)  # type: ignore[arg-type]


@contextmanager
def _no_leftovers(url: str) -> Iterator[None]:
    import redis

    with redis.Redis.from_url(url, decode_responses=True) as client:
        yield
        for key in client.scan_iter("spanfuse:{s-*"):
            client.unlink(key)


EDGES = [10**n + d for n in (9, 15, 16) for d in (-1, 0, 1)]
LARGE = st.one_of(st.integers(0, 10**18), st.integers(0, 10**15), st.sampled_from(EDGES))


@given(spent=LARGE, room=st.integers(-2, 10**15), asked=st.integers(1, 10**15), taken=st.integers(0, 10**15))
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
def test_amounts_of_every_size_are_added_and_compared_exactly(
    ledger: Ledger, spent: int, room: int, asked: int, taken: int
) -> None:
    """In Redis, too, whose scripts count with doubles."""
    if ledger.book is None:
        defined(ledger, strict())
    limit, name = max(1, min(spent + room, 10**18)), f"u{next(_tenants)}"
    scope, account = f"user:{name}", f"user:{name}|user"
    order = BudgetOrder(id=name, scope=scope, budget="user", action="set", amount=limit, at_ns=0)
    ledger.order(order)
    ledger.rebuild([Account(account, scope, "user", "usd", spent)])
    try:
        ledger.reserve(name, {"user": name}, Amounts(asked))
        assert spent + asked <= limit
        (found,) = ledger.accounts(scope)
        assert (found.spent, found.held, found.limit) == (spent, asked, limit)
        ledger.settle(name, Amounts(taken))
        (found,) = ledger.accounts(scope)
        assert (found.spent, found.held) == (spent + taken, 0)
    except Refused:
        assert spent + asked > limit
