"""Names in the one form in which decisions have them, at next to no cost for the names that are in it already."""

from __future__ import annotations

from typing import Final

PLAIN_CHARS: Final = 256
"""Longest name that may be in that form, characters: `spanfuse_schemas.names.MAX_NAME`, which takes pydantic along."""


def named(value: object) -> str:
    """An id as text in its one form (`spanfuse_schemas.names`). Agents use UUIDs, numbers and enumerations, too.

    Raises:
        Exception: whatever the `__str__` of a foreign object raises.
    """
    # Of a member of an enumeration of texts its text, not its name.
    text = str.__str__(value) if isinstance(value, str) else str(value)
    if len(text) <= PLAIN_CHARS and text.isascii() and text.strip() == text:
        return text
    from spanfuse_schemas.names import normal_name

    return normal_name(text)


def legible(value: object) -> str | None:
    """The same, None for what is empty or cannot be shown."""
    if value is None:
        return None
    try:
        return named(value) or None
    except Exception:
        return None
