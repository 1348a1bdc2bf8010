"""Settings of the rules on drift: away from what the user asked for, or from what the session was about."""

from __future__ import annotations

from pydantic import Field

from spanfuse_schemas.detection import Mode
from spanfuse_schemas.rule import Rule


class DriftRule(Rule):
    """`drift`: the agent follows an instruction that stands in what a tool brought. All of its thresholds must be reached."""

    mode: Mode = "warn"
    """Default `warn`: whether what it did was wanted is for people to say."""
    min_marks: int = Field(default=2, ge=1, le=5)
    """Kinds of marks (supersedes, addresses, claims a voice, imitates, hides) that the instruction shows. Default 2: one is
    ordinary in documentation, two close together were in none of 4,400 texts shown to agents at work."""
    min_traced: int = Field(default=1, ge=1, le=64)
    """Specific things in the arguments that come from the instruction alone. Default 1: an address or an account number
    does not get there by chance."""
    min_chars: int = Field(default=30, ge=1)
    """Shortest instruction that is judged, characters. Default 30: no order with what it is about is shorter."""


class SafetyDrift(Rule):
    """`safety_drift`: a new user turn has little in common with the first one and with the one before it.

    The distance is `1 - min(1, (anchor_weight * a + (1 - anchor_weight) * p) / full_at)`, where `a` and `p` are the shares of
    the new turn's character trigrams that the first and the last user turn have.
    """

    mode: Mode = "off"
    """Default `off`: what is another topic to the trigrams is, in a dialogue, most often the user's own will."""
    threshold: float = Field(default=0.45, gt=0, le=1)
    """Distance, 0 to 1, from which a turn is drift."""
    min_turns: int = Field(default=3, ge=2)
    """First user turn that is judged, counted from 1. Default 3: the second may still say what the first one meant."""
    min_chars: int = Field(default=60, ge=1, le=512)
    """Shortest user turn that is judged, characters; of longer ones 512 are compared. Default 60: "yes, please continue" has
    nothing in common with anything."""
    anchor_weight: float = Field(default=0.75, ge=0, le=1)
    """Weight of the first user turn; the rest is that of the last one."""
    full_at: float = Field(default=0.35, gt=0, le=1)
    """Weighted share of common trigrams that is no distance at all. Default 0.35: unrelated English has about 0.1."""
