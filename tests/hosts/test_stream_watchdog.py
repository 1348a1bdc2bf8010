"""Liveness is progress."""

from __future__ import annotations

from aiokafka import TopicPartition

from spanfuse_processor.hosts.stream.watchdog import Progress

P = TopicPartition("spanfuse.calls", 0)
Q = TopicPartition("spanfuse.calls", 1)


def test_a_partition_that_stands_still_with_messages_waiting_is_stuck() -> None:
    progress = Progress(stuck_s=30)
    assert progress.look({P: 5}, {P: 9}, 0) is None
    assert progress.look({P: 5}, {P: 12}, 30) is None
    assert progress.look({P: 5}, {P: 12}, 31) == P


def test_one_stuck_partition_is_found_among_busy_ones() -> None:
    progress = Progress(stuck_s=30)
    assert progress.look({P: 5, Q: 1}, {P: 9, Q: 9}, 0) is None
    assert progress.look({P: 5, Q: 4}, {P: 9, Q: 9}, 31) == P


def test_slow_progress_is_progress() -> None:
    progress = Progress(stuck_s=30)
    assert [progress.look({P: n}, {P: 100}, n * 29) for n in range(5)] == [None] * 5


def test_an_idle_partition_is_healthy() -> None:
    """Nothing waits, however long."""
    progress = Progress(stuck_s=30)
    assert [progress.look({P: 9}, {P: 9}, now) for now in (0, 1_000, 2_000)] == [None] * 3
    assert progress.look({P: 9}, {P: 10}, 3_000) is None


def test_after_an_outage_the_clock_begins_anew() -> None:
    """While Kafka is away, nobody can make progress."""
    progress = Progress(stuck_s=30)
    assert progress.look({P: 5}, {P: 9}, 0) is None
    progress.pause()
    assert progress.look({P: 5}, {P: 9}, 300) is None
