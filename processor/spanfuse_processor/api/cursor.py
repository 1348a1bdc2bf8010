"""Where a page ended, as a text that says nothing to those who carry it."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from spanfuse_processor.errors import QueryError


def cursor_at(*position: int | str) -> str:
    """The cursor behind a row."""
    return urlsafe_b64encode(json.dumps(position, separators=(",", ":")).encode()).decode().rstrip("=")


def position(cursor: str, *kinds: type) -> tuple[Any, ...] | None:
    """The row behind which a cursor points; none for an empty one.

    Args:
        kinds: of its parts.

    Raises:
        QueryError: it is none of this list.
    """
    if not cursor:
        return None
    try:
        found = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or [type(part) for part in found] != list(kinds):
        raise QueryError("the cursor is none of this list")
    return tuple(found)
