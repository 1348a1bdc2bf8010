"""How often tools were executed, in each session, by the rules that limit it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from spanfuse.bounded import Bounded
from spanfuse.tools.rules import Found

MAX_SESSIONS: Final = 10_000
"""Sessions whose executions are counted; beyond it the one that was counted longest ago begins anew."""


class Counted(NamedTuple):
    """What became of one execution."""

    taken: tuple[str, ...] = ()
    """Under which it was counted."""
    full: Found | None = None
    """The rule whose limit is reached, so that it was not counted; None: there is none."""
    used: int = 0
    """Executions before it by that rule."""


_UNCOUNTED: Final = Counted()


class Executions:
    """Counts executions, those of no session together: an execution by all rules that count it, or by none."""

    def __init__(self) -> None:
        self._counts: Bounded[str, Counter[str]] = Bounded(MAX_SESSIONS)
        self.after_fork()

    def after_fork(self) -> None:
        """The lock may have been held by a thread that does not exist in this process; counts are kept."""
        self._lock = threading.Lock()

    def take(self, session: str | None, rules: Iterable[Found]) -> Counted:
        """Count an execution that is about to be made."""
        counting = [one for one in rules if one.counted]
        if not counting:
            return _UNCOUNTED
        with self._lock:
            counts = self._of(session or "")
            for one in counting:
                if counts[one.counted] >= one.max_calls:
                    return Counted(full=one, used=counts[one.counted])
            taken = tuple({one.counted for one in counting})
            counts.update(taken)
        return Counted(taken)

    def _of(self, session: str) -> Counter[str]:
        found = self._counts.get(session)
        if found is None:
            found = self._counts[session] = Counter()
        return found

    def give_back(self, session: str | None, taken: tuple[str, ...]) -> None:
        """An execution was not made after all."""
        with self._lock:
            counts = self._counts.peek(session or "")
            if counts is not None:  # else it was forgotten meanwhile
                counts.subtract(taken)
