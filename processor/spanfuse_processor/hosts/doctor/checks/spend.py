"""Whether it is known what calls cost."""

from __future__ import annotations

from spanfuse_processor.hosts.doctor.finding import Finding
from spanfuse_processor.hosts.doctor.judging import judged, severity_of
from spanfuse_processor.hosts.doctor.sample import Sample


def usage(s: Sample) -> Finding:
    """Tokens that were not reported."""
    number, of = s.counts["estimated"], s.counts["llm"]
    return judged(
        "usage",
        severity_of(number, of),
        number,
        of,
        f"{number} of {of} model calls report no usage",
        "Their tokens are estimated from the length of texts, or 0: budgets and context limits are as good as that.",
        "Streaming calls often need `stream_options={'include_usage': True}`, or a newer instrumentation.",
    )


def price(s: Sample) -> Finding:
    """Models whose price is not known."""
    number, of = s.counts["unpriced"], s.counts["llm"]
    told = ", ".join(name for name, _ in s.models.most_common(5))
    return judged(
        "price",
        severity_of(number, of, many="warn"),
        number,
        of,
        f"{number} of {of} model calls have no known price" + (f": {told}" if told else ""),
        "They are counted at the fallback price, or as unknown.",
        "Give prices under pricing.models.",
    )
