"""What a batch of calls charges to each scope."""

from __future__ import annotations

import random
from typing import Any

import pytest

from spanfuse_processor.core.scopes.leaderboard import agents, models
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Call, Charge
from spanfuse_schemas.charge import MAX_NAMES, hashed_name
from spanfuse_schemas.scope_rules import Adaptive
from tests.support.agents import llm, policy, prompt, tool
from tests.support.charges import names
from tests.support.fleet import Fleet


def charged(calls: list[Call], size: int = 1000) -> dict[str, Charge]:
    """The charge of each scope by one batch."""
    fleet = Fleet(policy())
    fleet.run(calls, size)
    return {c.scope: c for c in fleet.charges}


def loop(session: str = "s", count: int = 4, **fields: object) -> list[Call]:
    return [prompt("Are we there yet?", session=session, at=i, **fields) for i in range(count)]


def test_a_batch_charges_each_scope_once() -> None:
    found = charged([prompt(f"q{i}", agent="a", user="u", team="t", model="m", at=i, cost=5) for i in range(9)])
    assert set(found) == {"agent:a", "user:u", "team:t", "model:m", "global:*"}
    assert {(c.calls, c.cost_nano_usd, c.sessions) for c in found.values()} == {(9, 45, 1)}


def test_a_session_begins_once_whatever_comes_later() -> None:
    fleet = Fleet(policy())
    fleet.run([prompt(f"q{i}", session=f"s{i % 3}", agent="a", at=i) for i in range(12)], size=5)
    assert sum(c.sessions for c in fleet.charges if c.scope == "agent:a") == 3


@pytest.mark.parametrize("resumed_by", ["a", "b"])
@pytest.mark.parametrize("size", [1, 4, 100])
def test_a_session_that_is_reset_is_still_one_session_as_large_as_it_was(size: int, resumed_by: str) -> None:
    """An operator's reset lets it go on; the baseline of its agent knows it by all its calls."""

    def calls(start: int, agent: str) -> list[Call]:
        return [prompt(f"q{i}", agent=agent, at=i, cost=5_000_000) for i in range(start, start + 20)]

    whole, reset = Fleet(policy()), Fleet(policy())
    whole.run(calls(0, "a") + calls(20, resumed_by), size)
    reset.run(calls(0, "a"), size)
    (name,) = reset.sessions
    reset.pipeline.reset(reset.sessions[name], 0)
    reset.sessions[name] = SessionState.restore(reset.sessions[name].snapshot())
    reset.run(calls(20, resumed_by), size)
    for key, scope in whole.scopes.items():
        found = reset.scopes[key]
        assert (found.sessions, found.lengths, found.spends) == (scope.sessions, scope.lengths, scope.spends)
    assert sum(reset.scopes["agent:a"].lengths.values()) == 1


def test_failures_of_the_provider_are_counted_and_others_are_not() -> None:
    calls = [
        prompt("q", agent="a", at=i, error_type="x", error_class=kind) for i, kind in enumerate(("provider", "client"))
    ]
    assert charged(calls)["agent:a"].failures == 1


def test_a_session_that_was_stopped_is_told_to_its_agent() -> None:
    found = charged(loop(agent="a"))
    assert found["agent:a"].tripped == names("s")
    assert found["agent:a"].recovered == ()
    assert found["global:*"].tripped == ()


def test_a_session_whose_block_ends_is_told_too() -> None:
    """Twice the same is foreseen to become a third time; then something new comes back."""
    again: dict[str, Any] = {
        "role": "assistant",
        "tool_calls": [{"id": "c", "function": {"name": "read", "arguments": '{"path": "x"}'}}],
    }
    other = {"role": "assistant", "content": "That is all there is."}

    def turn(i: int, then: dict[str, Any]) -> Call:
        history = [{"role": "user", "content": "Read it."}, again]
        result = {
            "role": "tool",
            "tool_call_id": "c",
            "content": "a long enough result of reading x" if i < 2 else "something new",
        }
        return llm([*history, result], then, agent="a", at=i)

    calls = [turn(i, again if i < 2 else other) for i in range(3)]
    fleet = Fleet(policy())
    fleet.run(calls)
    found = [c for c in fleet.charges if c.scope == "agent:a"]
    assert [c.tripped for c in found if c.tripped] == [names("s")]
    assert [c.recovered for c in found if c.recovered] == [names("s")]
    packed = charged([c.model_copy(update={"span_id": f"f{c.span_id[1:]}"}) for c in calls])["agent:a"]
    assert (packed.tripped, packed.recovered) == ((), names("s"))


def test_what_a_tool_span_tells_goes_to_the_model_that_asked_for_it() -> None:
    fleet = Fleet(policy())
    fleet.run([prompt("go", agent="a", model="m")])
    fleet.run(
        [tool("read", {"path": "x"}, "the same long result, again and again", at=1 + i, agent="a") for i in range(4)]
    )
    assert fleet.scopes["model:m"].loops == 1
    assert fleet.scopes["agent:a"].loops == 1


def test_a_loop_that_was_foreseen_counts_once() -> None:
    fleet = Fleet(policy())
    fleet.run(loop(agent="a", model="m", count=9))
    assert fleet.scopes["agent:a"].loops == 1


def test_a_reader_sees_the_smallest_hashes_of_too_many_names() -> None:
    found = charged([prompt("q", session=f"s{i}", agent="a") for i in range(300)])["agent:a"]
    assert found.members == tuple(sorted(hashed_name(f"s{i}") for i in range(300))[:MAX_NAMES])


@pytest.mark.parametrize("size", [3, 1000])
def test_how_calls_are_packed_does_not_matter_to_the_sums(size: int) -> None:
    rnd = random.Random(5)
    calls = []
    for i in range(400):
        n = rnd.randrange(12)
        text = "Are we there yet?" if n % 4 == 0 else f"question {i}"
        fields = {"agent": f"a{n % 3}", "team": f"t{n % 2}", "model": f"m{n % 2}", "parent_span_id": "b" * 16}
        calls.append(prompt(text, session=f"s{n}", at=i, cost=n * 1000, **fields))
    one, other = Fleet(policy()), Fleet(policy())
    one.run(calls)
    other.run(calls, size)
    for key, state in one.scopes.items():
        same = other.scopes[key]
        for name in ("calls", "cost_nano_usd", "sessions", "loops", "failures", "lengths", "spends", "last_ns"):
            assert getattr(state, name) == getattr(same, name), (key, name)


def test_the_lists_show_the_dearest_first_with_the_rate_of_loops() -> None:
    fleet = Fleet(policy())
    fleet.run(loop(agent="a", model="cheap", cost=1000))
    fleet.run([prompt(f"q{i}", session="t", agent="b", model="dear", cost=10**9, at=i) for i in range(2)])
    states = fleet.scopes.values()
    rows = models(s for s in states if s.kind == "model")
    assert [(r["model"], r["calls"], r["loops"], r["loops_per_1000_calls"]) for r in rows] == [
        ("dear", 2, 0, 0.0),
        ("cheap", 4, 1, 250.0),
    ]
    assert rows[0]["cost_nano_usd_per_call"] == 10**9
    found = agents((s for s in states if s.kind == "agent"), Adaptive())
    assert [(r["agent"], r["trips"]) for r in found] == [("b", 0), ("a", 1)]
