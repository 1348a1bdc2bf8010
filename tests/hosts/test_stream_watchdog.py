"""Liveness is progress."""

from __future__ import annotations

import subprocess
import sys

import pytest
from aiokafka import TopicPartition

from spanfuse_processor.config import KafkaSettings
from spanfuse_processor.errors import SpanfuseError
from spanfuse_processor.hosts.stream.progress import STUCK_S, Patience, Progress
from spanfuse_processor.hosts.stream.watchdog import EXPELLED_S, Standing, Watchdog

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


def test_what_lasts_longer_than_the_limit_is_lost() -> None:
    patience = Patience(10)
    assert [patience.lost(True, now) for now in (0, 10, 11)] == [False, False, True]


def test_patience_begins_anew_when_it_is_over_and_when_nothing_is_known() -> None:
    patience = Patience(10)
    assert [patience.lost(lasts, now) for lasts, now in ((True, 0), (False, 9), (True, 12), (True, 20))] == [False] * 4
    patience.pause()
    assert not patience.lost(True, 100)
    assert patience.lost(True, 111)


LEAVING = """
import sys, threading, time
from spanfuse_processor.hosts.stream.pulse import leave_within
threading.Thread(target=time.sleep, args=(60,)).start()
leave_within(0.2, {error})
"""


@pytest.mark.parametrize(("error", "code"), [("None", 0), ("ValueError('no partitions')", 1)])
def test_a_process_whose_threads_do_not_end_is_left_with_the_reason(error: str, code: int) -> None:
    command = [sys.executable, "-c", LEAVING.format(error=error)]
    left = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert left.returncode == code
    assert "the engine did not end by itself" in left.stderr
    assert ("no partitions" in left.stderr) == bool(code)


class TestMembership:
    """What a worker believes of itself is held against what the consumer group knows."""

    def setup_method(self) -> None:
        settings = KafkaSettings(brokers="127.0.0.1:1")
        self.watchdog = Watchdog(settings, lambda: Standing(False, "", set(), 0), stuck_s=30)

    def look(self, at_s: float, member: str = "me", *, ready: bool = True, recovering: int = 0) -> None:
        believed = Standing(ready, member, set(), recovering)
        self.watchdog._judge_membership(believed, {"me", "another"}, at_s)

    def test_a_worker_that_the_group_has_forgotten_ends(self) -> None:
        """One that lives would have learned of it with its next heartbeat."""
        self.look(0, "forgotten")
        self.look(EXPELLED_S, "forgotten")
        with pytest.raises(SpanfuseError, match="the consumer group has not known this worker for 10 s"):
            self.look(EXPELLED_S + 1, "forgotten")

    def test_one_that_joins_anew_in_time_goes_on(self) -> None:
        self.look(0, "forgotten")
        self.look(9, "", ready=False)
        self.look(20, "me")
        self.look(1_000, "me")

    def test_one_that_never_gets_partitions_ends(self) -> None:
        self.look(0, ready=False)
        self.look(STUCK_S, ready=False)
        with pytest.raises(SpanfuseError, match="no partitions for 90 s, though Kafka answers"):
            self.look(STUCK_S + 1, ready=False)

    def test_a_long_recovery_is_progress(self) -> None:
        for n in range(10):
            self.look(n * 60, ready=False, recovering=1_000 - n)
