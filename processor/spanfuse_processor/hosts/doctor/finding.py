"""One thing that was looked at, and what it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["ok", "warn", "problem"]
"""`warn`: something is seen less well than it could be; `problem`: something is not seen, or wrongly."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    check: str
    """Name of the check."""
    severity: Severity
    count: int
    """How many are concerned."""
    of: int
    """Of how many."""
    what: str
    """What was found, one sentence."""
    means: str = ""
    """What that means for detection and spend; empty where all is well."""
    do: str = ""
    """What to do about it; empty likewise."""
