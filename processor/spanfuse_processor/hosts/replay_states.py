"""The states of the sessions of a replay: any number of sessions, bounded memory."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from typing import Final

from spanfuse_processor.core.session import SessionState

MAX_LIVE_SESSIONS: Final = 10_000
"""Sessions whose state is held in memory, some 20 KB each; those silent longest wait in a temporary file."""


class Sessions:
    """The states of all sessions: the latest in memory, the others in a temporary file that goes away with it.

    Args:
        live: sessions held in memory.
    """

    def __init__(self, live: int = MAX_LIVE_SESSIONS) -> None:
        self._live: OrderedDict[str, SessionState] = OrderedDict()
        self._max_live = live
        self._spilled = sqlite3.connect("")  # SQLite's name for a private temporary database
        self._spilled.execute("CREATE TABLE states (session TEXT PRIMARY KEY, state BLOB) WITHOUT ROWID")

    def renew(self, session: str) -> SessionState:
        """Forget what is remembered of a session: its new state."""
        state = self._live[session] = SessionState(session)
        return state

    def get(self, session: str) -> SessionState:
        """The state of a session; a new one for a session never seen."""
        state = self._live.get(session)
        if state is not None:
            self._live.move_to_end(session)
            return state
        state = self._live[session] = self._recall(session) or SessionState(session)
        if len(self._live) > self._max_live:
            oldest, spilled = self._live.popitem(last=False)
            self._spilled.execute("REPLACE INTO states VALUES (?, ?)", (_key(oldest), spilled.snapshot()))
        return state

    def _recall(self, session: str) -> SessionState | None:
        row = self._spilled.execute("SELECT state FROM states WHERE session = ?", (_key(session),)).fetchone()
        return SessionState.restore(row[0]) if row else None

    def close(self) -> None:
        """Forget all."""
        self._spilled.close()


def _key(session: str) -> bytes:
    return session.encode("utf-8", "surrogatepass")
