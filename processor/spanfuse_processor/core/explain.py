"""Why a breaker did or did not trip: of each rule what it has counted, its threshold, and one sentence."""

from __future__ import annotations

from spanfuse_schemas.detection import Mode
from spanfuse_schemas.record import Record


class RuleView(Record):
    """One rule, as it looks at a session or scope at present."""

    rule: str
    """Its name, such as `repeat.no_progress`."""
    mode: Mode
    """How it is set here."""
    counted: float = 0
    """What it has counted, in `unit`."""
    threshold: float | None = None
    """Where it fires, in `unit`; none: it has no limit, as none is set."""
    unit: str = ""
    """Unit of both: repeats, rounds, calls, tokens, s, USD, …"""
    fired: bool = False
    """Whether it has fired on this session since it began, or was reset."""
    stands: bool = False
    """Whether what stands against the key is this rule's."""
    why: str = ""
    """One sentence: why it tripped, or what is missing."""
