"""Whatever the order, the batches and the redeliveries: accounts are exact, and a block stands exactly while all is spent."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.scopes.stage import ScopeStage
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Budget, Call, CallBatch, Charge, Policy, Tokens
from spanfuse_schemas.periods import period_of
from tests.support.agents import SECOND, START_NS
from tests.support.charges import charge
from tests.support.purse import HOUR, Purse, budget, under

BUDGETS = (
    budget("user/hourly", limit_usd=3e-7, period="hourly"),
    budget("user/daily", limit_usd=8e-7, period="daily", time_zone="Asia/Kathmandu"),
    budget("user/all", limit_steps=12),
)
"""Limits of 300 and 800 nano-dollars, and of 12 calls."""


@dataclass(frozen=True)
class Tick:
    """Time passes."""

    at: int


@st.composite
def told(draw: st.DrawFn) -> list[Charge]:
    """Charges from a few sources, offsets growing in each, over some hours, some of them late."""
    offsets: dict[str, int] = {}
    made = []
    for _ in range(draw(st.integers(1, 25))):
        source = draw(st.sampled_from(["p0", "p1", "p2"]))
        offsets[source] = offsets.get(source, -1) + draw(st.integers(1, 3))
        at, cost, calls = draw(st.integers(0, 40)) * HOUR // 4, draw(st.integers(0, 150)), draw(st.integers(0, 4))
        made.append(
            charge("user:u", source=source, offset=offsets[source], at=at, calls=calls, cost_nano_usd=cost)
        )  # fmt: skip
    return made


def shuffled(charges: list[Charge], rnd: random.Random) -> list[Charge]:
    """Any order that keeps that of each source, with redeliveries of what has come before."""
    queues = {source: [c for c in charges if c.source == source] for source in {c.source for c in charges}}
    places = dict.fromkeys(queues, 0)
    found: list[Charge] = []
    while any(places[s] < len(q) for s, q in queues.items()):
        source = rnd.choice([s for s, q in sorted(queues.items()) if places[s] < len(q)])
        if rnd.random() < 0.2:
            places[source] = rnd.randint(0, places[source])
        found.append(queues[source][places[source]])
        places[source] += 1
    return found


def amount(one: Budget, c: Charge) -> int:
    return c.calls if one.unit == "steps" else c.cost_nano_usd


def sums(charges: list[Charge]) -> Counter[tuple[str, int]]:
    """Budget and begin of the period → what the charges come to."""
    found: Counter[tuple[str, int]] = Counter()
    for c in charges:
        for b in BUDGETS:
            found[b.name, period_of(b.period, b.time_zone, c.at_ns).start_ns] += amount(b, c)
    return found


@settings(max_examples=150, deadline=None)
@given(told(), st.randoms(use_true_random=False))
def test_each_account_is_the_sum_of_the_charges_of_its_period_in_any_order(
    charges: list[Charge], rnd: random.Random
) -> None:
    purse, expected = Purse("user:u", *BUDGETS), sums(charges)
    for c in shuffled(charges, rnd):
        purse.take(c)
        purse.state = ScopeState.restore(purse.state.snapshot())
    accounts = purse.state.budgets
    assert accounts is not None
    for b in BUDGETS:
        spent_in = sorted((start for name, start in expected if name == b.name and expected[name, start]), reverse=True)
        for start in spent_in[:2]:
            found = accounts.at(b, period_of(b.period, b.time_zone, start)).spent
            assert found == expected[b.name, start]


@settings(max_examples=150, deadline=None)
@given(told(), st.lists(st.integers(0, 50), max_size=5), st.randoms(use_true_random=False))
def test_a_block_stands_exactly_while_all_of_a_running_period_is_spent_and_each_share_is_told_once(
    charges: list[Charge], ticks: list[int], rnd: random.Random
) -> None:
    steps: list[Charge | Tick] = [*shuffled(charges, rnd)]
    for at in ticks:
        steps.insert(rnd.randint(0, len(steps)), Tick(at * HOUR // 4))
    purse, told_once, counted = Purse("user:u", *BUDGETS), Counter[str](), list[Charge]()
    seen: dict[str, int] = {}
    clock, epoch = 0, 0
    for step in steps:
        if isinstance(step, Tick):
            out, clock = purse.tick(step.at), max(clock, START_NS + step.at * SECOND)
        else:
            out = purse.take(step)
            if step.offset > seen.get(step.source, -1):
                seen[step.source] = step.offset
                counted.append(step)
                clock = max(clock, step.at_ns)
        told_once.update(
            f"{d.rule} {d.evidence.threshold} {d.evidence.since_ns // (HOUR * SECOND)}" for d in out.detections
        )
        expected = sums(counted)
        spent_up = {
            f"budget.{b.name}"
            for b in BUDGETS
            if expected[b.name, period_of(b.period, b.time_zone, clock).start_ns] >= b.limit
        }
        held = purse.standing
        assert (held.rule in spent_up) if held is not None else not spent_up
        assert held is None or held.expires_at_ns is None or held.expires_at_ns > clock
        for decision in out.decisions:
            assert decision.epoch > epoch
            epoch = decision.epoch
    by_rule = Counter(key.split()[0] for key in told_once.elements())
    assert by_rule["budget.user/all"] <= 4
    for b in BUDGETS[:2]:
        periods = {period_of(b.period, b.time_zone, c.at_ns).start_ns for c in counted}
        assert by_rule[f"budget.{b.name}"] <= 4 * len(periods)


def calls_of(rnd: random.Random) -> list[Call]:
    """Calls of two users and three sessions, around a full hour, nearly in order."""
    found = []
    for i in range(rnd.randint(1, 30)):
        end = START_NS + (i * 150 + rnd.randrange(300)) * SECOND
        found.append(
            Call(
                trace_id=f"{rnd.randint(1, 2):032x}", span_id=f"{i + 1:016x}", start_ns=end - SECOND, end_ns=end,
                session=f"s{rnd.randrange(3)}", user=f"u{rnd.randrange(2)}", team="t", agent="a", operation="chat",
                response=f"{i:016x}", tokens=Tokens(input=rnd.randrange(50), output=5),
                cost_nano_usd=rnd.randrange(100), content="structure",
            )
        )  # fmt: skip
    return found


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_however_calls_are_packed_the_accounts_are_the_same(rnd: random.Random) -> None:
    """Also where a batch holds the end of one hour and the begin of the next."""
    budgets = [
        budget(f"{kind}/hourly", period="hourly", **limit)
        for kind, limit in (
            ("user", {"limit_usd": 1}),
            ("team", {"limit_tokens": 9}),
            ("trace", {"limit_steps": 9}),
            ("global", {"limit_usd": 1}),
        )
    ]
    calls = calls_of(rnd)
    one_by_one, counted = accounts_of(calls, 1, under(*budgets))
    for size in (rnd.randint(2, 9), 100):
        assert accounts_of(calls, size, under(*budgets)) == (one_by_one, counted)
    spent = [n for key, accounts in one_by_one.items() if key.startswith("trace:") for _, n in accounts]
    assert sum(spent) == counted


def accounts_of(calls: list[Call], size: int, rules: Policy) -> tuple[dict[str, list[tuple[int, int]]], int]:
    """Scope → begin of each period and what was spent in it, with batches of some size; and how many calls counted."""
    pipeline, stage = Pipeline(rules), ScopeStage(rules)
    sessions, scopes = dict[str, SessionState](), dict[str, ScopeState]()
    counted = 0
    for at in range(0, len(calls), size):
        batch = CallBatch(calls=tuple(calls[at : at + size]))
        out = pipeline.process(batch, lambda s: sessions.setdefault(s, SessionState(s)), source="p", offset=at)
        stage.process(out.charges, lambda s: scopes.setdefault(s, ScopeState(s)))
        counted += out.counted
    kept = {key: state.budgets for key, state in scopes.items() if state.budgets is not None}
    return {
        key: [pair for f in accounts.sums.values() for pair in _spent(f)] for key, accounts in kept.items()
    }, counted


def _spent(fields: list[int]) -> list[tuple[int, int]]:
    return [(fields[i], fields[i + 1]) for i in range(0, len(fields), 4)]


@st.composite
def orders(draw: st.DrawFn) -> tuple[str, str, int, int | None]:
    """Budget, action, amount, and when it expires, quarters of an hour."""
    name = draw(st.sampled_from([b.name for b in BUDGETS]))
    action = draw(st.sampled_from(["set", "extend", "reset"]))
    return name, action, draw(st.integers(0, 400)), draw(st.none() | st.integers(0, 50))


Step = tuple[str, Charge | int | tuple[str, str, int, int | None]]


@settings(max_examples=150, deadline=None)
@given(
    told(), st.lists(orders(), max_size=6), st.lists(st.integers(0, 50), max_size=4), st.randoms(use_true_random=False)
)
def test_whatever_operators_order_a_block_stands_exactly_while_all_is_spent(
    charges: list[Charge], ordered: list[tuple[str, str, int, int | None]], ticks: list[int], rnd: random.Random
) -> None:
    steps: list[Step] = [("charge", c) for c in shuffled(charges, rnd)]
    for order in ordered:
        steps.insert(rnd.randint(0, len(steps)), ("order", order))
    for at in ticks:
        steps.insert(rnd.randint(0, len(steps)), ("tick", at))
    purse, now, epoch = Purse("user:u", *BUDGETS), 0, 0
    for kind, what in steps:
        if isinstance(what, Charge):
            out, now = purse.take(what), max(now, what.at_ns)
        elif isinstance(what, int):
            out, now = purse.tick(what * HOUR // 4), max(now, START_NS + what * HOUR // 4 * SECOND)
        else:
            name, action, amount, until = what
            at = max(0, (now - START_NS) // SECOND)
            expires = None if until is None else START_NS + until * HOUR // 4 * SECOND
            out = purse.order(name, action, amount, at=at, expires_at_ns=expires)
            now = max(now, START_NS + at * SECOND)
        assert kind
        rows = purse.stage.accounts("user:u", purse.state, now)
        spent_up = {f"budget.{row['budget']}" for row in rows if row["status"] == "exhausted"}
        held = purse.standing
        assert (held.rule in spent_up) if held is not None else not spent_up
        for decision in out.decisions:
            assert decision.epoch > epoch
            epoch = decision.epoch
        due_ns = purse.state.due_ns()
        assert not due_ns or due_ns > purse.state.budgets.clock_ns  # type: ignore[union-attr]
        purse.state = ScopeState.restore(purse.state.snapshot())
