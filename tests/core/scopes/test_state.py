"""What is remembered of a scope: each charge once, whatever the batches and redeliveries; bounded; restored as it was."""

from __future__ import annotations

import random
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanfuse_processor.core.scopes.stage import ScopeStage
from spanfuse_processor.core.scopes.state import LASTING_S, MAX_SOURCES, ScopeState
from spanfuse_processor.errors import StateError
from spanfuse_schemas import Charge, Grown
from tests.support.agents import policy
from tests.support.charges import Scope, charge, names

ALL = policy(
    agent_breaker={"mode": "block", "sessions": 3},
    fanout={"mode": "block", "max_agents": 5},
    retries={"count": 5},
    adaptive={"mode": "warn", "sessions": 5, "floor_calls": 1},
)


@st.composite
def told(draw: st.DrawFn) -> list[Charge]:
    """Charges of one scope from a few sources, offsets growing in each."""
    scope = draw(st.sampled_from(["agent:a", "trace:t", "team:x", "global:*", "model:m"]))
    offsets: dict[str, int] = {}
    made = []
    session = st.lists(st.integers(0, 30), max_size=4, unique=True)
    for _ in range(draw(st.integers(1, 25))):
        source = draw(st.sampled_from(["p0", "p1", "p2"]))
        offsets[source] = offsets.get(source, -1) + draw(st.integers(1, 3))
        calls = draw(st.integers(0, 20))
        more: dict[str, Any] = {"failures": draw(st.integers(0, calls)), "members": names(*draw(session))}
        if scope == "agent:a":
            more |= {"tripped": names(*draw(session)), "recovered": names(*draw(session))}
            more |= {"lengths": {draw(st.integers(0, 9)): draw(st.integers(1, 3))}}
            more |= {
                "grown": (
                    Grown(session=f"s{draw(st.integers(0, 3))}", calls=draw(st.integers(1, 400)), cost_nano_usd=0),
                )
            }
        made.append(
            charge(scope, source=source, offset=offsets[source], at=draw(st.integers(0, 2000)), calls=calls, **more)
        )
    return made


def outcome(scope: Scope, charges: list[Charge]) -> list[bytes]:
    out = scope.take(charges)
    return [record.to_json() for record in (*out.detections, *out.decisions)]


@settings(max_examples=150, deadline=None)
@given(told(), st.randoms(use_true_random=False))
def test_any_split_with_redeliveries_and_restarts_gives_the_same_state(found: list[Charge], rnd: random.Random) -> None:
    once, parts = Scope(found[0].scope, ALL), Scope(found[0].scope, ALL)
    wanted = outcome(once, found)
    said: list[bytes] = []
    at = 0
    while at < len(found):
        end = rnd.randint(at + 1, len(found))
        back = rnd.randint(0, at)
        said += [record for charges in ([c] for c in found[back:end]) for record in outcome(parts, charges)]
        parts.state = ScopeState.restore(parts.state.snapshot())
        at = end
    assert sorted(said) == sorted(wanted)
    assert parts.state.snapshot() == once.state.snapshot()


@settings(max_examples=50, deadline=None)
@given(told())
def test_a_snapshot_is_the_state(found: list[Charge]) -> None:
    scope = Scope(found[0].scope, ALL)
    scope.take(found)
    assert ScopeState.restore(scope.state.snapshot()).snapshot() == scope.state.snapshot()


def test_a_charge_of_an_offset_that_was_applied_is_dropped_and_counted() -> None:
    scope = Scope()
    first = charge(offset=7, cost_nano_usd=5)
    assert scope.take(first).touched
    for offset in (7, 6, 0):
        out = scope.take(charge(offset=offset, cost_nano_usd=100))
        assert (out.redelivered, out.touched) == (1, {})
    assert scope.state.cost_nano_usd == 5


def test_offsets_of_two_sources_have_nothing_to_do_with_one_another() -> None:
    scope = Scope()
    scope.take([charge(source=source, offset=3) for source in ("spanfuse.calls-0", "spanfuse.calls-1")])
    assert scope.state.calls == 2


def test_sources_are_bounded_and_the_one_silent_longest_goes() -> None:
    scope = Scope()
    scope.take([charge(source=f"calls-{i}", offset=1) for i in range(MAX_SOURCES)])
    scope.take(charge(source="calls-0", offset=2))
    scope.take(charge(source="new", offset=1))
    assert len(scope.state.sources) == MAX_SOURCES
    assert "calls-0" in scope.state.sources
    assert "calls-1" not in scope.state.sources


def test_a_scope_of_a_busy_fleet_takes_bounded_room() -> None:
    rnd = random.Random(3)
    scope = Scope(under=ALL)
    for i in range(3_000):
        sessions = names(*(rnd.randrange(100_000) for _ in range(20)))
        scope.take(
            charge(
                source=f"calls-{i % 8}", at=i, calls=20, failures=rnd.randrange(20), members=sessions, tripped=sessions[:9],
                lengths={rnd.randrange(100): 1}, spends={rnd.randrange(150): 1},
                grown=(Grown(session=f"s{i}", calls=10**6, cost_nano_usd=0),),
            )
        )  # fmt: skip
    assert len(scope.state.snapshot()) < 12_000


def test_a_trace_of_a_few_agents_takes_a_few_hundred_bytes() -> None:
    scope = Scope("trace:" + "a" * 32)
    scope.take(
        [charge("trace:" + "a" * 32, source=f"spanfuse.calls-{i % 4}", at=i, members=names(i % 5)) for i in range(60)]
    )
    assert len(scope.state.snapshot()) < 400


def test_users_have_charges_but_no_state() -> None:
    out = ScopeStage(policy()).process([charge("user:u")], ScopeState)
    assert out.touched == {}


def test_traces_and_rare_agents_go_with_their_sessions_and_what_lasts_stays() -> None:
    day = 24 * 3600
    agent = ScopeState("agent:a")
    assert (ScopeState("trace:t").kept_s(day), agent.kept_s(day), ScopeState("team:t").kept_s(day)) == (
        day,
        day,
        LASTING_S,
    )
    agent.sessions = 11
    assert agent.kept_s(day) == LASTING_S


@pytest.mark.parametrize("data", [b"", b"rubbish", msgpack.packb([2, "agent:a"]), msgpack.packb([1, "agent:a"])])
def test_what_is_no_snapshot_is_refused(data: bytes) -> None:
    with pytest.raises(StateError):
        ScopeState.restore(data)


@pytest.mark.parametrize("sessions", [0, 10, 11, 70_000])
@pytest.mark.parametrize("key", ["agent:a", "model:m", "team:x", "global:*", "trace:t"])
def test_a_snapshot_tells_how_long_it_is_kept_as_its_state_does(key: str, sessions: int) -> None:
    scope = Scope(key)
    scope.take(charge(key, sessions=sessions, at=9))
    data = scope.state.snapshot()
    assert ScopeState.stored_kept_s(key, data, 60.0) == scope.state.kept_s(60.0)
    assert ScopeState.stored_kept_s("agent:a", b"?" + data, 60.0) == 60.0
