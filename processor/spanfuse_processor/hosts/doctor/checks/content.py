"""What is seen of what agents say and do."""

from __future__ import annotations

from spanfuse_processor.hosts.doctor.finding import Finding
from spanfuse_processor.hosts.doctor.judging import judged, several, severity_of
from spanfuse_processor.hosts.doctor.sample import Sample


def content(s: Sample) -> Finding:
    """Calls without content and without fingerprints."""
    number, of = s.counts["structure"], s.counts["calls"]
    stated = f", {s.counts['stated']} state fingerprints" if s.counts["stated"] else ""
    return judged(
        "content",
        severity_of(number, of, from_share=1),
        number,
        of,
        f"{number} of {of} calls have neither content nor fingerprints{stated}",
        "Only rules on structure (tokens, tools, failures, times) see them, and these warn.",
        "Turn content capture on, or have the agent's process state fingerprints: docs/client.md, Without content.",
    )


def truncated(s: Sample) -> Finding:
    """Content that was cut on its way, and fingerprints that were."""
    cut, broken, of = s.counts["content_truncated"], s.counts["fingerprint_invalid"], s.counts["calls"]
    number = cut + broken
    return judged(
        "truncated",
        severity_of(number, of, many="warn"),
        number,
        of,
        f"the messages of {cut} model calls were cut, and {broken} stated fingerprints cannot be read",
        "A text that was cut equals no other: loops of such calls are not seen.",
        "Raise OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT and the limits of the Collector, or state fingerprints.",
    )


def fingerprint_key(s: Sample) -> Finding:
    """Fingerprints that are stated under other keys than those they are compared with."""
    keys, of = several(s.sessions.values.values(), lambda shared: shared.keys), len(s.sessions.values)
    other = s.counts["other_key"]
    what = f"{keys} of {of} sessions have fingerprints under several keys"
    if other:
        what += f"; {other} calls have another key than service.fingerprint_key"
    return judged(
        "fingerprint key",
        severity_of(keys + other, of, many="warn"),
        max(keys, other),
        of,
        what,
        "What differs in words alone is not seen to be alike.",
        "Set SPANFUSE_FINGERPRINT_KEY in all processes, and service.fingerprint_key here, to the same secret.",
    )


def logs(s: Sample) -> Finding:
    """Content that was logged for spans that are not there."""
    number, of = s.counts["logs_left"], s.counts["logs_left"] + s.counts["logs_joined"]
    return judged(
        "logs",
        severity_of(number, of, many="warn"),
        number,
        of,
        f"{of - number} log records with content belong to a span that is here, {number} do not",
        "Calls whose content comes apart from them are seen without it.",
        "Send spans and logs of the same processes here.",
    )
