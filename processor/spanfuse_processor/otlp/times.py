"""When a call began and ended: what a span says, but for what no clock can have meant."""

from __future__ import annotations

from collections import Counter
from typing import Final

from spanfuse_processor.otlp.span import Span

MAX_AHEAD_NS: Final = 5 * 60 * 1_000_000_000
"""A span that ends later than this after its receipt has a wrong clock: it is moved to end with its receipt."""
MAX_LASTING_NS: Final = 24 * 3600 * 1_000_000_000
"""No call lasts longer: an earlier start is none, and would count as the length of a session."""


def times(span: Span, received_ns: int, counters: Counter[str]) -> tuple[int, int]:
    """Start and end, nanoseconds since the Unix epoch.

    Args:
        received_ns: when the span was received, likewise; the end of a span that tells neither.
        counters: gets `start_invalid` and `clamped`, spans whose times were repaired.
    """
    end = next((at for at in (span.end_ns, span.start_ns, received_ns) if at > 0), 0)
    start = span.start_ns if span.start_ns > 0 else end
    if not end - MAX_LASTING_NS <= start <= end:
        counters["start_invalid"] += 1
        start = end
    if end > received_ns + MAX_AHEAD_NS:
        counters["clamped"] += 1
    return _received(start, end, received_ns)


def stretch(span: Span, received_ns: int) -> tuple[int, int]:
    """When a span that holds others was under way: however long, and from ever if it does not say since when."""
    end = span.end_ns if span.end_ns > 0 else received_ns
    return _received(max(0, min(span.start_ns, end)), end, received_ns)


def _received(start: int, end: int, received_ns: int) -> tuple[int, int]:
    """Times of a span, moved to end with its receipt if its clock is wrong."""
    if end > received_ns + MAX_AHEAD_NS:
        return max(0, received_ns - (end - start)), received_ns
    return start, end
