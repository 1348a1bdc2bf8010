"""Whether spans were sampled: then calls are missing that nobody can count."""

from __future__ import annotations

import re
from typing import Final

from spanfuse_processor.otlp.span import Span
from spanfuse_processor.otlp.values import number

_THRESHOLD: Final = re.compile(r"(?:^|[;:])th:([0-9a-f]{1,14})(?:;|$)")
"""Rejection threshold of OpenTelemetry's consistent sampling: of 2**56 random values, those below are dropped."""
_POWER: Final = re.compile(r"(?:^|[;:])p:(\d{1,2})(?:;|$)")
"""Its predecessor: one of 2**p is kept."""
_NONE: Final = 63
"""This power stands for nothing kept by a sampler."""
_RATES: Final = ("SampleRate", "sampleRate", "sample_rate")
"""One of so many is kept."""
_SHARES: Final = ("sampling.probability", "sampling.ratio", "otel.sampling.probability")
"""Such a share is kept."""


def share_sampled(span: Span) -> float:
    """The share of traces that the sampler of a span lets through, 0 to 1; 1 where nothing says that there was one."""
    if span.trace_state:
        found = _of_state(span.trace_state)
        if found < 1:
            return found
    attributes = span.attributes
    rate = next((n for key in _RATES if (n := number(attributes.get(key))) is not None and n >= 1), 1.0)
    share = next((n for key in _SHARES if (n := number(attributes.get(key))) is not None and 0 < n <= 1), 1.0)
    return min(1 / rate, share)


def _of_state(state: str) -> float:
    entry = next((e.strip()[3:] for e in state.split(",") if e.strip().startswith("ot=")), "")
    threshold = _THRESHOLD.search(entry)
    if threshold:
        return 1 - int(threshold[1].ljust(14, "0"), 16) / 2**56
    power = _POWER.search(entry)
    return 2.0 ** -int(power[1]) if power and 0 < int(power[1]) < _NONE else 1.0
