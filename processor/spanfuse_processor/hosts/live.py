"""The sessions that are at work, in memory; the store has all."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import StateError
from spanfuse_processor.hosts.store import Store
from spanfuse_processor.telemetry import Counters

log = logging.getLogger(__name__)

MAX_LIVE: Final = 2_000
"""Sessions in memory, some 20 KB each; those silent longest are read from the store when they come up again."""


class LiveSessions:
    """What `Pipeline.process` loads from. Every change is in the store before the next request, so any may be dropped.

    Args:
        store: has all sessions.
        counters: gets `unreadable_sessions`.
        max_live: sessions kept in memory.
    """

    def __init__(self, store: Store, counters: Counters, max_live: int = MAX_LIVE) -> None:
        self._store = store
        self._counters = counters
        self._max_live = max_live
        self._live: OrderedDict[str, SessionState] = OrderedDict()
        self._loaded: list[str] = []

    def __len__(self) -> int:
        return len(self._live)

    def load(self, session: str) -> SessionState:
        """The state of a session for the request at hand; a new one for one that is not known."""
        state = self._live.get(session)
        if state is None:
            state = self._live[session] = self._stored(session) or self.fresh(session)
        else:
            self._live.move_to_end(session)
        self._loaded.append(session)
        return state

    def known(self, session: str) -> SessionState | None:
        """The state of a session, to look at; none if it is not known."""
        return self._live.get(session) or self._stored(session)

    def committed(self) -> None:
        """The request at hand is in the store."""
        self._loaded.clear()
        while len(self._live) > self._max_live:
            self._live.popitem(last=False)

    def rolled_back(self) -> None:
        """The request at hand has failed: the store is the truth for every session that it has loaded."""
        self.forget(self._loaded)
        self._loaded.clear()

    def forget(self, sessions: Iterable[str]) -> None:
        """Drop from memory."""
        for session in sessions:
            self._live.pop(session, None)

    def _stored(self, session: str) -> SessionState | None:
        data = self._store.load(session)
        if data is None:
            return None
        try:
            return SessionState.restore(data)
        except StateError as error:
            self._counters.add({"unreadable_sessions": 1})
            if self._counters["unreadable_sessions"] == 1:
                log.warning("a stored session cannot be read and starts afresh: %s", error)
            return None

    def fresh(self, session: str) -> SessionState:
        """A session that starts now, at an epoch that Guards obey."""
        state = SessionState(session)
        state.epoch = self._store.last_epoch(session)
        return state
