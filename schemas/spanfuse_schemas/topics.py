"""The Kafka topics, and how each has to be configured."""

from __future__ import annotations

import hashlib
from typing import Final

from spanfuse_schemas.record import Record

OTLP_SPANS: Final = "otlp_spans"
OTLP_LOGS: Final = "otlp_logs"
CALLS: Final = "spanfuse.calls"
DETECTIONS: Final = "spanfuse.detections"
CHARGES: Final = "spanfuse.charges"
CONTROL: Final = "spanfuse.control"
AUDIT: Final = "spanfuse.audit"
POLICY: Final = "spanfuse.policy"
DEAD_LETTER: Final = "spanfuse.dead-letter"


class Topic(Record):
    """A topic and the settings it needs."""

    name: str
    """Name of the topic."""
    key: str
    """What a record's key is."""
    value: str
    """What a record's value is."""
    config: dict[str, str]
    """Topic configuration, Kafka's names and units."""
    partitions: int | None = None
    """Number of partitions; none: as many as the deployment asks for."""


_DAY_MS: Final = str(24 * 3600 * 1000)
_WEEK_MS: Final = str(7 * 24 * 3600 * 1000)
_MAX_BYTES: Final = str(16 * 1024 * 1024)

TOPICS: Final[tuple[Topic, ...]] = (
    Topic(
        name=OTLP_SPANS,
        key="any",
        value="ExportTraceServiceRequest, protobuf or JSON",
        config={"cleanup.policy": "delete", "retention.ms": _WEEK_MS, "max.message.bytes": _MAX_BYTES},
    ),
    Topic(
        name=OTLP_LOGS,
        key="any, but the same trace on the same partition as in `otlp_spans`",
        value="ExportLogsServiceRequest, protobuf or JSON",
        config={"cleanup.policy": "delete", "retention.ms": _WEEK_MS, "max.message.bytes": _MAX_BYTES},
    ),
    Topic(
        name=CALLS,
        key="none; the partition is `partition_of(session)`",
        value="CallBatch",
        config={"cleanup.policy": "delete", "retention.ms": _WEEK_MS, "max.message.bytes": _MAX_BYTES},
    ),
    Topic(
        name=DETECTIONS,
        key="session, else scope",
        value="Detection",
        config={"cleanup.policy": "delete", "retention.ms": _WEEK_MS},
    ),
    Topic(
        name=CHARGES,
        key="none; the partition is `partition_of(scope)`",
        value="ChargeBatch",
        config={"cleanup.policy": "delete", "retention.ms": _WEEK_MS},
    ),
    Topic(
        name=CONTROL,
        key="Decision.key; `policy:*`",
        value="Decision, empty: forget the key; PolicyNotice under `policy:*`",
        config={"cleanup.policy": "compact", "delete.retention.ms": _DAY_MS, "segment.ms": str(3600 * 1000)},
        partitions=1,
    ),
    Topic(
        name=AUDIT,
        key="BudgetOrder.id",
        value="Audited",
        config={"cleanup.policy": "compact", "segment.ms": _WEEK_MS},
        partitions=1,
    ),
    Topic(
        name=POLICY,
        key="`overlay`",
        value="PolicyOrder: what operators have laid over the configuration file of workers",
        config={"cleanup.policy": "compact", "segment.ms": _WEEK_MS},
        partitions=1,
    ),
    Topic(
        name=DEAD_LETTER,
        key="as it came",
        value="the undecodable bytes; why and where from in the headers",
        config={"cleanup.policy": "delete", "retention.ms": _WEEK_MS, "max.message.bytes": _MAX_BYTES},
    ),
)


def partition_of(key: str, partitions: int) -> int:
    """The partition on which the state of `key` lives: a stable hash, the same in every process and language.

    It is the first 8 bytes, big-endian, of the BLAKE2b-64 hash of the UTF-8 key, modulo `partitions`.
    """
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % partitions
