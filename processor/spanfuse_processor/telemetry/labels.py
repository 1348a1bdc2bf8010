"""Values of attributes: names of agents and models come from outside, and may be anything."""

from __future__ import annotations

from typing import Final

MAX_CHARS: Final = 100
"""Longest value, characters; what two longer names have in common is counted together."""
NONE: Final = "none"
"""Stands for what a call does not name."""
OTHER: Final = "other"
"""Stands for all values beyond the bound."""


def label(value: str) -> str:
    """A value that every backend takes: not empty, of bounded length, on one line, and valid as UTF-8."""
    if not value:
        return NONE
    if len(value) > MAX_CHARS:
        value = value[:MAX_CHARS] + "…"
    return value if value.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in value)
