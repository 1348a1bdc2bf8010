"""Decisions arrive more than once and out of order; what is known afterwards is the same."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanfuse.decisions.table import DecisionTable
from spanfuse.testing import block, closed, nudge
from spanfuse_schemas import Decision

KEYS = st.sampled_from(["session:a", "session:b", "agent:a", "team:a", "global:*"])
MAKERS = st.sampled_from([block, closed, nudge])


@st.composite
def histories(draw: st.DrawFn) -> list[Decision]:
    """Per key, epochs that grow and what was decided at each."""
    steps = draw(st.lists(st.tuples(KEYS, MAKERS), max_size=25))
    return [maker(key, epoch=epoch) for epoch, (key, maker) in enumerate(steps, 1)]


def known(table: DecisionTable) -> dict[str, int]:
    return {d.key: d.epoch for d in table.decisions()}


def seen_by_checks(table: DecisionTable) -> dict[str, int]:
    view = table.view
    scopes = {"session": view.session, "agent": view.agent, "team": view.team, "global": view.everyone}
    return {f"{s}:{name}": e.decision.epoch for s, slot in scopes.items() for name, e in slot.items()}


def in_order(history: list[Decision]) -> dict[str, int]:
    last = {d.key: d for d in history}
    return {key: d.epoch for key, d in last.items() if d.action != "allow"}


@given(histories(), st.data())
def test_any_delivery_with_duplicates_gives_the_state_of_the_last_epochs(
    history: list[Decision], data: st.DataObject
) -> None:
    again = data.draw(st.lists(st.sampled_from(history), max_size=20)) if history else []
    delivery = data.draw(st.permutations(history + again))
    table = DecisionTable()
    for decision in delivery:
        table.apply(decision)
    assert known(table) == seen_by_checks(table) == in_order(history)


@given(histories(), histories(), st.randoms())
def test_a_snapshot_replaces_everything_and_changes_follow_on_it(
    before: list[Decision], after: list[Decision], rng: random.Random
) -> None:
    table = DecisionTable()
    for decision in before:
        table.apply(decision)
    cut = rng.randint(0, len(after))
    snapshot = after[:cut]
    rng.shuffle(snapshot)
    table.replace(snapshot)
    assert known(table) == seen_by_checks(table) == in_order(after[:cut])
    for decision in [*after, *after]:
        table.apply(decision)
    assert known(table) == seen_by_checks(table) == in_order(after)


def test_what_a_snapshot_does_not_name_is_gone_even_at_a_lower_epoch() -> None:
    """A server that lost its state counts epochs anew; its snapshot is the truth all the same."""
    table = DecisionTable()
    table.apply(block("session:a", epoch=9))
    table.apply(block("session:b", epoch=9))
    table.replace([block("session:a", epoch=1)])
    assert known(table) == {"session:a": 1}


def test_a_snapshot_that_fails_half_way_leaves_what_was_known() -> None:
    def broken() -> Any:
        yield block("session:new")
        raise RuntimeError("the connection broke")

    table = DecisionTable()
    table.apply(block("session:old", epoch=1))
    with pytest.raises(RuntimeError):
        table.replace(broken())
    assert known(table) == seen_by_checks(table) == {"session:old": 1}


def test_readers_never_see_a_snapshot_half_taken() -> None:
    table = DecisionTable()
    table.apply(block("session:a", epoch=1))

    def watched() -> Any:
        for name in "abc":
            assert set(table.view.session) == {"a"}
            yield block(f"session:{name}", epoch=2)

    table.replace(watched())
    assert set(table.view.session) == {"a", "b", "c"}


def test_scopes_of_a_later_version_are_counted_and_ignored() -> None:
    table = DecisionTable()
    table.apply(block("cluster:x"))
    table.apply(block("everyone:x"))
    table.apply(block("no scope"))
    assert (table.ignored, len(table)) == (3, 0)


def test_the_table_is_bounded_and_counts_what_it_forgets() -> None:
    table = DecisionTable(max_decisions=3, max_closed=2)
    for i in range(5):
        table.apply(block(f"session:{i}"))
    assert list(known(table)) == ["session:2", "session:3", "session:4"]
    assert table.evicted == 2
    for i in range(5):
        table.apply(closed(f"session:{i}"))
    assert len(table) == 0
    assert len(table._known.closed) == 2
