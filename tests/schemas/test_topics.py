"""The topics are configured for what they carry, and every process finds the same partition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanfuse_schemas.topics import (
    AUDIT,
    CALLS,
    CHARGES,
    CONTROL,
    DEAD_LETTER,
    DETECTIONS,
    OTLP_LOGS,
    OTLP_SPANS,
    POLICY,
    TOPICS,
    partition_of,
)

BY_NAME = {topic.name: topic for topic in TOPICS}


def test_there_are_nine_topics() -> None:
    assert set(BY_NAME) == {OTLP_SPANS, OTLP_LOGS, CALLS, DETECTIONS, CHARGES, CONTROL, AUDIT, POLICY, DEAD_LETTER}
    assert len(BY_NAME) == len(TOPICS)


def test_only_control_and_what_operators_order_is_compacted() -> None:
    """A Guard that starts late reads the whole present from the one, and orders are kept for good in the others."""
    assert {t.name: t.config["cleanup.policy"] for t in TOPICS} == {
        name: "compact" if name in (CONTROL, AUDIT, POLICY) else "delete" for name in BY_NAME
    }


def test_the_control_topic_has_one_partition_and_no_retention_by_time() -> None:
    """One partition: a Guard sees the decisions of all keys in their order."""
    assert BY_NAME[CONTROL].partitions == 1
    assert "retention.ms" not in BY_NAME[CONTROL].config


def test_histories_are_kept_for_a_week() -> None:
    kept = {t.config.get("retention.ms") for t in TOPICS if t.name not in (CONTROL, AUDIT, POLICY)}
    assert kept == {str(7 * 24 * 3600 * 1000)}


@pytest.mark.parametrize("name", [OTLP_SPANS, OTLP_LOGS, CALLS, DEAD_LETTER])
def test_topics_that_carry_spans_take_messages_of_16_mib(name: str) -> None:
    assert BY_NAME[name].config["max.message.bytes"] == str(16 * 2**20)


@pytest.mark.parametrize(
    ("key", "partitions", "partition"),
    [("", 8, 4), ("checkout-42", 8, 2), ("checkout-42", 64, 42), ("trace:" + "a" * 32, 12, 3), ("会话", 8, 5)],
)
def test_the_partition_of_a_key_never_changes(key: str, partitions: int, partition: int) -> None:
    """Another value would separate sessions from the state that older versions stored."""
    assert partition_of(key, partitions) == partition


@given(st.text(), st.integers(1, 1000))
def test_every_key_has_a_partition(key: str, partitions: int) -> None:
    assert 0 <= partition_of(key, partitions) < partitions


def test_lone_surrogates_have_a_partition() -> None:
    assert 0 <= partition_of("\ud800", 8) < 8


def test_keys_spread_evenly() -> None:
    counts = [0] * 8
    for i in range(8_000):
        counts[partition_of(f"session-{i}", 8)] += 1
    assert min(counts) > 850
    assert max(counts) < 1_150
