"""What may be committed."""

from __future__ import annotations

from faust.types import TP

from spanfuse_processor.hosts.stream.offsets import Offsets, Window
from tests.support.loops import in_loop

P0, P1 = TP("t", 0), TP("t", 1)


class Group:
    """A consumer group that remembers what was committed."""

    def __init__(self) -> None:
        self.commits: list[dict[TP, int]] = []
        self.mine = True

    async def commit(self, offsets: dict[TP, int]) -> bool:
        self.commits.append(offsets)
        return self.mine


@in_loop
async def test_the_next_offset_is_committed_once() -> None:
    """The offset after the last durable one; and nothing when nothing is new."""
    group = Group()
    offsets = Offsets(group.commit)
    offsets.done(P0, 7)
    offsets.done(P1, 0)
    await offsets.commit()
    await offsets.commit()
    assert group.commits == [{P0: 8, P1: 1}]


@in_loop
async def test_a_redelivered_message_takes_nothing_back() -> None:
    """An older offset that is done again moves nothing."""
    group = Group()
    offsets = Offsets(group.commit)
    offsets.done(P0, 7)
    await offsets.commit()
    offsets.done(P0, 3)
    await offsets.commit()
    assert group.commits == [{P0: 8}]


@in_loop
async def test_a_refused_commit_is_tried_again() -> None:
    """What the group did not take is not believed to be committed."""
    group = Group()
    group.mine = False
    offsets = Offsets(group.commit)
    offsets.done(P0, 7)
    await offsets.commit()
    group.mine = True
    await offsets.commit()
    assert group.commits == [{P0: 8}, {P0: 8}]
    assert offsets.committed(P0) == 8


@in_loop
async def test_after_a_rebalance_nothing_old_is_committed() -> None:
    """Another worker may have gone on meanwhile."""
    group = Group()
    offsets = Offsets(group.commit)
    offsets.done(P0, 7)
    offsets.forget()
    await offsets.commit()
    assert group.commits == []


def test_a_window_ends_before_the_first_unfinished_message() -> None:
    """Finished in any order, committed in order."""
    window = Window()
    for offset in (10, 11, 12):
        window.begin(offset)
    assert window.finish(11) == -1
    assert window.finish(10) == 11
    assert window.finish(12) == 12


def test_a_window_takes_redelivered_messages() -> None:
    """An older message in between delays, and moves nothing back."""
    window = Window()
    window.begin(10)
    assert window.finish(10) == 10
    window.begin(4)
    window.begin(11)
    assert window.finish(11) == 10
    assert window.finish(4) == 11


def test_a_message_that_begins_late_holds_back_those_behind_it() -> None:
    """Whatever the order in which they came."""
    window = Window()
    window.begin(100)
    window.begin(98)
    assert window.finish(100) == -1
    assert window.finish(98) == 100


def test_a_message_at_work_twice_is_finished_with_its_last_copy() -> None:
    window = Window()
    window.begin(5)
    window.begin(5)
    assert window.finish(5) == -1
    assert window.finish(5) == 5
    assert window.finish(5) == 5
