"""The states of the sessions and scopes of a replay: any number of them, bounded memory."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final, Generic, Protocol, Self, TypeVar

MAX_LIVE_SESSIONS: Final = 10_000
"""States held in memory by a process, of sessions some 20 KB each; those silent longest wait in a temporary file."""


class Remembered(Protocol):
    """A state that can be written and read."""

    def snapshot(self) -> bytes:
        """The state as bytes."""

    @classmethod
    def restore(cls, data: bytes) -> Self:
        """The inverse of `snapshot`."""


State = TypeVar("State", bound=Remembered)


class States(Generic[State]):
    """The states of all names: the latest in memory, the others in a temporary file that goes away with it.

    Args:
        new: makes the state of a name never seen.
        live: states held in memory once it was trimmed.
    """

    def __init__(self, new: Callable[[str], State], live: int = MAX_LIVE_SESSIONS) -> None:
        self._new = new
        self._live: OrderedDict[str, State] = OrderedDict()
        self._max_live = live
        self._spilled = sqlite3.connect("")  # SQLite's name for a private temporary database
        self._spilled.execute("CREATE TABLE states (session TEXT PRIMARY KEY, state BLOB) WITHOUT ROWID")

    def renew(self, session: str) -> State:
        """Forget what is remembered of a name: its new state."""
        state = self._live[session] = self._new(session)
        return state

    def known(self, session: str) -> State | None:
        """The state of a name; none for one never seen."""
        return self._live.get(session) or self._recall(session)

    def of_kind(self, prefix: str) -> Iterator[State]:
        """The states of all names with a prefix."""
        yield from (state for name, state in self._live.items() if name.startswith(prefix))
        found = self._spilled.execute("SELECT session, state FROM states WHERE session >= ?", (_key(prefix),))
        for name, data in found:
            if not name.startswith(_key(prefix)):
                return
            if name.decode("utf-8", "surrogatepass") not in self._live:
                yield self._restored(data)

    def get(self, session: str) -> State:
        """The state of a name; a new one for one never seen."""
        state = self._live.get(session)
        if state is not None:
            self._live.move_to_end(session)
            return state
        state = self._live[session] = self._recall(session) or self._new(session)
        return state

    def trim(self) -> None:
        """Put those into the file that are too many, when nobody holds one of them any more: a change would be lost."""
        while len(self._live) > self._max_live:
            oldest, spilled = self._live.popitem(last=False)
            self._spilled.execute("REPLACE INTO states VALUES (?, ?)", (_key(oldest), spilled.snapshot()))

    def _recall(self, session: str) -> State | None:
        row = self._spilled.execute("SELECT state FROM states WHERE session = ?", (_key(session),)).fetchone()
        return self._restored(row[0]) if row else None

    def _restored(self, data: bytes) -> State:
        return self._new("").restore(data)

    def close(self) -> None:
        """Forget all."""
        self._spilled.close()


def _key(session: str) -> bytes:
    return session.encode("utf-8", "surrogatepass")
