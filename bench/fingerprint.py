"""What a fingerprint costs, by length, against sorting the keys and hashing alone."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
from collections.abc import Iterator
from typing import Any

from bench.report import Figure, time_per_call
from spanfuse_schemas.fingerprint import fingerprint

AIMS_US = {200: 60, 2_000: 400, 20_000: 3_000}
"""Length, characters → aim, microseconds."""

_VOCABULARY = [
    f"{a}{b}" for a in ("re", "un", "pre", "over", "in", "") for b in ("act", "form", "view", "port", "sent", "load")
]
_RANDOM = random.Random(7)


def _sentence() -> str:
    words = _RANDOM.choices(_VOCABULARY, k=12)
    return f"{' '.join(words)}, {_RANDOM.randrange(100)} of {_RANDOM.randrange(1000)}."


def _prose(length: int) -> str:
    text = ""
    while len(text) < length:
        text += _sentence() + "\n"
    return text[:length]


def _record() -> dict[str, Any]:
    hexes = f"{_RANDOM.getrandbits(64):016x}"
    return {
        "request_id": hexes,
        "order_id": _RANDOM.randrange(10**6),
        "note": _sentence(),
        "total": _RANDOM.random() * 100,
    }


def _json(length: int) -> str:
    rows = [_record()]
    while len(json.dumps(rows)) < 0.9 * length:
        rows.append(_record())
    return json.dumps(rows)


def _naive(text: str) -> str:
    with contextlib.suppress(ValueError):
        text = json.dumps(json.loads(text), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def run() -> Iterator[Figure]:
    """Measure prose and JSON of three lengths, a hundred different texts of each."""
    for length, aim in AIMS_US.items():
        for kind, make in (("prose", _prose), ("JSON", _json)):
            texts = [make(length) for _ in range(100)]
            calls = 200 if length < 20_000 else 100
            ours = time_per_call(lambda n, t=texts: [fingerprint(t[i % 100]) for i in range(n)], calls)  # type: ignore[misc]
            naive = time_per_call(lambda n, t=texts: [_naive(t[i % 100]) for i in range(n)], calls)  # type: ignore[misc]
            name = f"fingerprint of {length:,} characters of {kind}"
            yield Figure(name, ours * 1e6, "µs", naive * 1e6, "sort and hash", f"≤ {aim} µs")
