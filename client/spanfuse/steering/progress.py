"""What agents say that they have achieved: a count for each session, which only grows.

Rules on repetition take a count that has grown for proof that an agent gets on, whatever its steps look like.
"""

from __future__ import annotations

import os
import threading
from typing import Final

from spanfuse.bounded import Bounded

ATTRIBUTE: Final = "spanfuse.progress"
"""Of a span: the count when it was started."""
MAX_SESSIONS: Final = 10_000
"""Sessions whose count is remembered; beyond it the one that was heard of longest ago is forgotten."""

_said: Bounded[str, int] = Bounded(MAX_SESSIONS)
_lock = threading.Lock()


def say(session: str, count: int) -> int:
    """Take a count in; the highest that was said.

    Raises:
        ValueError: it is no count.
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < 2**63:
        raise ValueError(f"progress is a whole number from 0 on, not {type(count).__name__}")
    with _lock:
        highest = max(count, _said.get(session) or 0)
        _said[session] = highest
    return highest


def of(session: str | None) -> int | None:
    """The highest count of a session; None: it has said nothing. Takes no lock."""
    return _said.peek(session) if session is not None else None


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
