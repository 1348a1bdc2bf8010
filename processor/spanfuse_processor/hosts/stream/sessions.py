"""The states of the first stage, by session, and those of the second, by scope."""

from __future__ import annotations

from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.hosts.stream.states import States, key_of

__all__ = ["Scopes", "Sessions", "key_of"]


class Sessions(States[SessionState]):
    """What `Pipeline.process` loads from."""

    what = "sessions"

    def breaker_of(self, name: str) -> str:
        """The key of its breaker."""
        return f"session:{name}"

    def new(self, name: str) -> SessionState:
        """A session that has seen nothing."""
        return SessionState(name)

    def restore(self, snapshot: bytes) -> SessionState:
        """A session from its snapshot."""
        return SessionState.restore(snapshot)


class Scopes(States[ScopeState]):
    """What `ScopeStage.process` loads from."""

    what = "scopes"

    def breaker_of(self, name: str) -> str:
        """The key of its breaker: its own."""
        return name

    def new(self, name: str) -> ScopeState:
        """A scope that has seen nothing."""
        return ScopeState(name)

    def restore(self, snapshot: bytes) -> ScopeState:
        """A scope from its snapshot."""
        return ScopeState.restore(snapshot)
