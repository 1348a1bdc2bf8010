"""The checks: each makes one finding of a sample. To add one: write it, put it into `CHECKS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from spanfuse_processor.hosts.doctor.checks import content, delivery, identity, spend
from spanfuse_processor.hosts.doctor.finding import Finding
from spanfuse_processor.hosts.doctor.sample import Sample
from spanfuse_schemas.wording import key_id

CHECKS: Final[tuple[Callable[[Sample], Finding], ...]] = (
    delivery.requests,
    delivery.calls,
    delivery.dialects,
    delivery.left,
    delivery.unreadable,
    identity.session,
    identity.shared_session,
    identity.agent,
    spend.usage,
    spend.price,
    content.content,
    content.truncated,
    content.fingerprint_key,
    content.logs,
    delivery.clock,
    delivery.times,
    delivery.delivered_again,
    delivery.twins,
    delivery.nested,
    delivery.partitions,
    delivery.sampling,
    delivery.coverage,
)


_INGEST: Final = ("invalid", "failed", "content_truncated", "fingerprint_invalid", "start_invalid")
"""What the normaliser counts of spans that cannot be used as they are."""


def findings(sample: Sample, ingest: Mapping[str, int]) -> list[Finding]:
    """All findings, in the order of `CHECKS`.

    Args:
        ingest: what the normaliser counted.
    """
    sample.counts.update({name: ingest[name] for name in _INGEST})
    sample.counts["other_key"] = ingest["fingerprint_key"] if key_id() else 0
    return [check(sample) for check in CHECKS]
