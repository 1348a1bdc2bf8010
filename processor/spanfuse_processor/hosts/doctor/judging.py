"""How much of something is the matter, and how a finding says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from spanfuse_processor.hosts.doctor.finding import Finding, Severity
from spanfuse_processor.hosts.doctor.sample import Shared

FEW: Final = 0.05
"""Up to this share, what is the matter with some is a warning where it would be a problem for many."""


def severity_of(count: int, of: int, *, many: Severity = "problem", from_share: float = 0.5) -> Severity:
    """Of something that should not be at all.

    Args:
        many: what it is from `from_share` of all on; a warning below.
    """
    return "ok" if not count else many if count >= from_share * of else "warn"


def judged(check: str, severity: Severity, count: int, of: int, what: str, means: str, do: str) -> Finding:
    """A finding that says what it means, and what to do, only where something is the matter."""
    return Finding(check, severity, count, of, what, *(("", "") if severity == "ok" else (means, do)))


def several(found: Iterable[Shared], get: Callable[[Shared], set[str] | set[int]]) -> int:
    """How many are spread over more than one of what `get` gives."""
    return sum(len(get(shared)) > 1 for shared in found)
