"""Those who pass on what a host tells: nothing twice, nothing lost that is kept, and they are told if something is."""

from __future__ import annotations

import asyncio

import pytest

from spanfuse_processor.exporters.events import EventLog
from spanfuse_processor.exporters.hub import Hub
from spanfuse_processor.exporters.news import Follower, News, parsed
from tests.support.loops import in_loop


class Told:
    """A host that tells what is in a log."""

    def __init__(self, log: EventLog) -> None:
        self.events = log.follow


async def heard(follower: Follower, until: bytes) -> list[News]:
    """All up to an event."""
    found: list[News] = []
    async for group in follower.groups(0.01):
        found += group
        if found and found[-1].data == until:
            return found
    return found


@in_loop
async def test_who_listens_hears_what_happens_from_that_moment_on_though_it_asks_later() -> None:
    """Not what was before."""
    log = EventLog()
    log.publish("detection", b"0")
    follower = Follower(Told(log))
    follower.listen()
    for n in range(1, 4):
        log.publish("decision", b"%d" % n)
    found = await asyncio.wait_for(heard(follower, b"3"), 5)
    assert found == [News("ready", b"{}"), *(News("decision", b"%d" % n) for n in range(1, 4))]


@pytest.mark.parametrize(("kept", "anew"), [(1000, False), (5, True)])
@in_loop
async def test_who_does_not_keep_up_goes_on_where_it_was_or_is_told_that_something_is_missing(
    kept: int, anew: bool
) -> None:
    """It is dropped at ten events that wait, and connects again."""
    log = EventLog(Hub(max_waiting=10), kept)
    follower = Follower(Told(log))
    follower.listen()
    groups = follower.groups(0.01)
    assert [one.event for one in await anext(groups)] == ["ready"]
    for n in range(50):
        log.publish("detection", b"%d" % n)
    found: list[News] = []
    while not found or found[-1].event != "ready":
        found += await asyncio.wait_for(anext(groups), 5)
    assert ("anew" in [one.event for one in found]) == anew
    told = [int(one.data) for one in found if one.event == "detection"]
    assert told == ([] if anew else list(range(50)))
    log.publish("detection", b"50")
    assert await asyncio.wait_for(anext(groups), 5) == [News("detection", b"50")]
    await groups.aclose()  # type: ignore[attr-defined]
    assert len(log.hub) == 0


def test_what_is_no_event_is_passed_over() -> None:
    """A comment, an empty frame."""
    assert list(parsed(b": keep-alive\n\n\n\nevent: x\ndata: {}\n\n")) == [("", News("x", b"{}"))]
