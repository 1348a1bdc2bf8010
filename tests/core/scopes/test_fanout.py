"""fanout: agents and sessions that multiply within one trace."""

from __future__ import annotations

from typing import Any

import pytest

from spanfuse_schemas import Call
from tests.support.agents import SECOND, START_NS, policy, prompt
from tests.support.charges import Scope, charge, names
from tests.support.fleet import Fleet

TRACE = "trace:" + "a" * 32


def scope(**settings: Any) -> Scope:
    return Scope(TRACE, policy(fanout=settings))


def test_twenty_five_agents_pass_and_the_next_one_is_told() -> None:
    found = scope()
    assert found.fired([charge(TRACE, at=i, members=names(i)) for i in range(25)]) == []
    assert found.fired(charge(TRACE, at=25, members=names(25))) == ["fanout"]


@pytest.mark.parametrize(("last", "fires"), [(59.9, True), (60, False)])
def test_only_agents_at_work_within_the_window_count(last: float, fires: bool) -> None:
    found = scope()
    found.take(charge(TRACE, members=names(*range(25))))
    assert bool(found.fired(charge(TRACE, at=last, members=names("last")))) is fires


def test_with_block_the_whole_trace_is_stopped_at_once() -> None:
    (decision,) = scope(mode="block").take(charge(TRACE, members=names(*range(31)))).decisions
    assert (decision.key, decision.action, decision.rule) == (TRACE, "block", "fanout")
    assert decision.expires_at_ns == START_NS + 300 * SECOND


def test_a_probe_of_a_trace_that_is_still_too_wide_doubles_the_cooldown() -> None:
    found = scope(mode="block")
    found.take(charge(TRACE, members=names(*range(31))))
    (again,) = found.take(charge(TRACE, at=301, members=names(*range(31)))).decisions
    assert (again.state, again.expires_at_ns) == ("open", again.issued_at_ns + 600 * SECOND)
    assert [d.state for d in found.take(charge(TRACE, at=1000, members=names(1))).decisions] == ["closed"]


def test_names_without_end_take_no_room_without_end() -> None:
    found = scope()
    for i in range(40):
        found.take(charge(TRACE, at=i / 100, members=names(*range(i * 250, i * 250 + 250))))
    assert len(found.state.snapshot()) < 4_000
    assert 6_500 < found.state.active.count < 13_500


def spawned(agents: int, *, sessions: bool) -> list[Call]:
    """Agents of one trace, each with its own session or all in the trace's."""
    own: dict[str, Any] = {"parent_span_id": "b" * 16}
    if not sessions:
        own |= {"session": TRACE, "session_source": "trace"}
    return [
        prompt(f"part {i}", at=i, agent="worker" if sessions else f"u{i}", **{"session": f"s{i}", **own})
        for i in range(agents)
    ]


@pytest.mark.parametrize("sessions", [True, False])
def test_r035_r037_a_tree_of_agents_is_seen_by_its_sessions_and_by_its_names(sessions: bool) -> None:
    """Thirty-one agents of one trace within a minute: with sessions of their own, or under invented names in one."""
    fleet = Fleet(policy(fanout={"mode": "block"}))
    fleet.run(spawned(25, sessions=sessions))
    assert [d.key for d in fleet.decisions] == []
    fleet.run(spawned(31, sessions=sessions)[25:])
    assert [d.key for d in fleet.decisions] == [TRACE]


def test_calls_that_are_alone_in_their_trace_charge_no_trace() -> None:
    """Without a parent, and in a session: what is not instrumented as a tree costs nothing."""
    fleet = Fleet(policy())
    fleet.run([prompt("hello", session="s", trace_id=f"{i:032x}", at=i) for i in range(1, 9)])
    assert not [key for key in fleet.scopes if key.startswith("trace:")]


def test_a_session_that_is_the_trace_itself_charges_none_while_it_has_one_agent() -> None:
    fleet = Fleet(policy())
    own: dict[str, Any] = {"session": TRACE, "session_source": "trace", "parent_span_id": "b" * 16}
    fleet.run([prompt(f"step {i}", at=i, agent="lone", **own) for i in range(9)])
    assert TRACE not in fleet.scopes
