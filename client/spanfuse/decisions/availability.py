"""What becomes of calls while nothing is known: before the first catch-up, and when the subscriber has gone silent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from spanfuse.context import Identity
from spanfuse.decisions.table import SCOPES
from spanfuse.names import named

OnUnavailable = Literal["open", "closed"]


class FailMode:
    """Open or closed, by key, else by scope, else open.

    Args:
        mode: one for all calls; or a mapping whose keys are scopes (`team`) or keys (`team:payments`, `global:*`).

    Raises:
        ValueError: for another mode or scope.
    """

    def __init__(self, mode: OnUnavailable | Mapping[str, OnUnavailable]) -> None:
        modes: dict[str, str] = {"global": mode} if isinstance(mode, str) else dict(mode)
        for key, value in modes.items():
            if value not in ("open", "closed"):
                raise ValueError(f"on_unavailable is 'open' or 'closed', not {value!r}")
            if key.partition(":")[0] not in (*SCOPES, "global"):
                raise ValueError(f"on_unavailable knows the scopes {', '.join(SCOPES)} and global, not {key!r}")
        self._modes = {_key(key): value for key, value in modes.items()}
        self.may_close = "closed" in modes.values()
        """Whether any call can be refused."""

    def closed(self, who: Identity) -> str | None:
        """The key for which a call is refused; None: it passes. A key says more than its scope, both more than another
        scope that is open."""
        if not self.may_close:
            return None
        for scope in SCOPES:
            name = getattr(who, scope)
            if name is not None and self._mode(scope, name) == "closed":
                return f"{scope}:{name}"
        return "global:*" if self._mode("global", "*") == "closed" else None

    def _mode(self, scope: str, name: str) -> str:
        return self._modes.get(f"{scope}:{name}") or self._modes.get(scope) or "open"


def _key(key: str) -> str:
    scope, colon, name = key.partition(":")
    return f"{scope}{colon}{named(name)}"
