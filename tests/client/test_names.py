"""A name is the same session in the Guard, on spans and in decisions, however it was written."""

from __future__ import annotations

import enum
import uuid
from typing import Any

import pytest

from spanfuse import Blocked, Guard, session
from spanfuse.context import current
from spanfuse.names import PLAIN_CHARS, named
from spanfuse.testing import MemorySubscriber, block
from spanfuse_processor.otlp.values import bounded
from spanfuse_schemas.names import MAX_NAME, normal_name


class Kind(enum.StrEnum):
    """An id that is a member of an enumeration."""

    NIGHTLY = "run-1"


LONG = "r" * 300
NAMES: list[Any] = ["run-1", " run-1 ", "\trun-1\n", LONG, LONG + "x", "lauf-ä\u2003", "r" * 256, 42, Kind.NIGHTLY]


@pytest.mark.parametrize("name", [*NAMES, "a\ud800"])
def test_the_guard_and_ingest_have_one_form(name: Any) -> None:
    assert named(name) == bounded(name) == bounded(named(name))
    assert PLAIN_CHARS == MAX_NAME


def test_long_names_stay_two() -> None:
    one, other = normal_name(LONG), normal_name(LONG + "x")
    assert one != other
    assert len(one) == len(other) == MAX_NAME


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scope", ["session", "agent", "user", "team"])
def test_a_block_reaches_the_name_as_the_agent_writes_it(scope: str, name: Any) -> None:
    with Guard(MemorySubscriber(block(f"{scope}:{bounded(name)}")), mode="enforce") as guard:
        assert guard.wait_ready(5)
        with pytest.raises(Blocked):
            guard.check(**{scope: name})
        with session(**{scope: name}), pytest.raises(Blocked):
            guard.check()
        assert guard.check(**{scope: "another"}).allowed


def test_a_name_of_white_space_names_nothing() -> None:
    with session("outer"), session("  ", agent=uuid.UUID(int=1)):
        assert (current().session, current().agent) == ("outer", str(uuid.UUID(int=1)))
    with Guard(MemorySubscriber(block("session:outer")), mode="enforce") as guard, session("outer"):
        assert guard.wait_ready(5)
        with pytest.raises(Blocked):
            guard.check(session="  ")


def test_what_is_closed_while_nothing_is_known_is_named_as_loosely() -> None:
    with Guard(MemorySubscriber(ready=False), mode="enforce", on_unavailable={f"team: {LONG}": "closed"}) as guard:
        with pytest.raises(Blocked):
            guard.check(team=LONG + " ")
        assert guard.check(team="other").allowed


class Unshowable:
    """An id of who knows which library."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    def __str__(self) -> str:
        raise RuntimeError("not shown")


@pytest.mark.parametrize("scope", ["session", "agent", "user", "trace"])
def test_a_name_that_cannot_be_shown_takes_no_block_away_from_the_others(scope: str) -> None:
    guard = Guard(MemorySubscriber(block("team:research")))
    with pytest.raises(Blocked):
        guard.check(team="research", **{scope: Unshowable()})
    assert guard.counters.errors == 0
