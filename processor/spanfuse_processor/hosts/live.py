"""The sessions and scopes that are at work, in memory; the store has all."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable
from itertools import islice
from typing import Final, Generic, TypeVar

from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import StateError
from spanfuse_processor.hosts.store import Store
from spanfuse_processor.telemetry import Counters
from spanfuse_schemas import Decision

log = logging.getLogger(__name__)

MAX_LIVE: Final = 2_000
"""Sessions in memory, some 20 KB each; those silent longest are read from the store when they come up again."""
MAX_LIVE_SCOPES: Final = 5_000
"""Scopes in memory, some 5 KB each."""

State = TypeVar("State")


class Live(Generic[State]):
    """What a stage of the core loads from. Every change is in the store before the next request, so any may be dropped.

    Args:
        read: gives the snapshot of a name; none if it is not known.
        restore: makes a state of it.
        fresh: a state that starts now.
        unreadable: name of the counter of snapshots that cannot be read.
    """

    def __init__(
        self,
        read: Callable[[str], bytes | None],
        restore: Callable[[bytes], State],
        fresh: Callable[[str], State],
        counters: Counters,
        unreadable: str,
        max_live: int,
    ) -> None:
        self._read = read
        self._restore = restore
        self.fresh = fresh
        self._counters = counters
        self._unreadable = unreadable
        self._max_live = max_live
        self._live: OrderedDict[str, State] = OrderedDict()
        self._loaded: list[str] = []

    def __len__(self) -> int:
        return len(self._live)

    def load(self, name: str) -> State:
        """The state for the request at hand; a new one for a name that is not known."""
        state = self._live.get(name)
        if state is None:
            state = self._live[name] = self._stored(name) or self.fresh(name)
        else:
            self._live.move_to_end(name)
        self._loaded.append(name)
        return state

    def known(self, name: str) -> State | None:
        """The state, to look at; none if the name is not known."""
        return self._live.get(name) or self._stored(name)

    def committed(self) -> None:
        """The request at hand is in the store."""
        self._loaded.clear()
        while len(self._live) > self._max_live:
            self._live.popitem(last=False)

    def rolled_back(self) -> None:
        """The request at hand has failed: the store is the truth for all that it has loaded."""
        self.forget(self._loaded)
        self._loaded.clear()

    def forget(self, names: Iterable[str]) -> None:
        """Drop from memory."""
        for name in names:
            self._live.pop(name, None)

    def _stored(self, name: str) -> State | None:
        data = self._read(name)
        if data is None:
            return None
        try:
            return self._restore(data)
        except StateError as error:
            self._counters.add({self._unreadable: 1})
            if self._counters[self._unreadable] == 1:
                log.warning("a stored session or scope cannot be read and starts afresh: %s", error)
            return None


class LiveSessions(Live[SessionState]):
    """The sessions.

    Args:
        store: has all sessions.
        counters: gets `unreadable_sessions`.
        max_live: sessions kept in memory.
    """

    def __init__(self, store: Store, counters: Counters, max_live: int = MAX_LIVE) -> None:
        def fresh(session: str) -> SessionState:
            state = SessionState(session)
            _resume(state, store.last_epoch(session), store.decision(f"session:{session}"))
            return state

        super().__init__(store.load, SessionState.restore, fresh, counters, "unreadable_sessions", max_live)


class LiveScopes(Live[ScopeState]):
    """The scopes.

    Args:
        store: has all scopes.
        counters: gets `unreadable_scopes`.
        max_live: scopes kept in memory.
    """

    def __init__(self, store: Store, counters: Counters, max_live: int = MAX_LIVE_SCOPES) -> None:
        def fresh(scope: str) -> ScopeState:
            state = ScopeState(scope)
            _resume(state, store.last_scope_epoch(scope), store.decision(scope))
            return state

        super().__init__(store.load_scope, ScopeState.restore, fresh, counters, "unreadable_scopes", max_live)

    def latest(self, kinds: Container[str], most: int) -> list[str]:
        """Keys of scopes of some kinds in memory, those last at work first."""
        return list(islice((key for key in reversed(self._live) if key.partition(":")[0] in kinds), most))


def _resume(state: SessionState | ScopeState, epoch: int, standing: Decision | None) -> None:
    """Begin at an epoch that Guards obey. A state that could not be read holds what still stands, so that a probe, a reset or
    its end can close it."""
    state.epoch = epoch
    if standing is None:
        return
    state.epoch = max(state.epoch, standing.epoch)
    # Whose call a conditional block waits for is not known any more: it ends by a probe.
    state.decision = standing.model_copy(update={"conditional": False})
    if standing.expires_at_ns is not None:
        state.cooldown_s = max(0.0, (standing.expires_at_ns - standing.issued_at_ns) / 1e9)
