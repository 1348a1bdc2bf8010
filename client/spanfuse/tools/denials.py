"""What was denied: a list that does not grow without end, and does not say what the arguments were unless asked to."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spanfuse.tools.arguments import Arguments

if TYPE_CHECKING:
    from spanfuse.context import Identity

MAX_DENIALS: Final = 1_000
"""Denials kept, the newest."""
_MAX_FIELDS: Final = 32
"""Names of fields kept of one denial."""
_MAX_NAME_CHARS: Final = 64
"""Longest name of a field that is kept, characters: an agent may put anything there."""
_UNREADABLE: Final = ":0"
"""The print of what cannot be read: that of a text of unknown identity."""


class Denial(NamedTuple):
    """One call of a tool that was denied, or would have been."""

    at_ns: int
    """When, nanoseconds since the Unix epoch."""
    tool: str
    """Name of the tool."""
    rule: str
    """As of `ToolDenied`."""
    reason: str
    """Why."""
    session: str | None
    agent: str | None
    user: str | None
    team: str | None
    fields: tuple[str, ...]
    """Names of the fields of its arguments."""
    print: str
    """Fingerprint of its arguments, the same as in the spans of the call."""
    enforced: bool = True
    """False: the rule is only observed, and the call was let through."""
    arguments: Any = None
    """The arguments, where they are to be kept."""


class Denials:
    """The last denials.

    Args:
        told: called with each; what it raises is counted.
        keep_arguments: keep what the tools would have been called with.
    """

    def __init__(self, told: Callable[[Denial], object] | None = None, *, keep_arguments: bool = False) -> None:
        self._told, self._keep_arguments = told, keep_arguments
        self._kept: deque[Denial] = deque(maxlen=MAX_DENIALS)
        self.total = 0
        """All that there were."""
        self.failures = 0
        """Calls of `told` that failed."""
        self.after_fork()

    def after_fork(self) -> None:
        """The lock may have been held by a thread that does not exist in this process."""
        self._lock = threading.Lock()

    @property
    def dropped(self) -> int:
        """Denials no longer kept."""
        with self._lock:
            return self.total - len(self._kept)

    def kept(self) -> list[Denial]:
        """Those that are kept, the newest last."""
        with self._lock:
            return list(self._kept)

    def add(self, tool: str, rule: str, reason: str, who: Identity, arguments: Arguments, *, enforced: bool) -> None:
        """Remember one, and tell of it."""
        fields, fingerprint, kept = self._shown(tool, arguments)
        denial = Denial(
            time.time_ns(), tool, rule, reason, who.session, who.agent, who.user, who.team, fields, fingerprint,
            enforced, kept,
        )  # fmt: skip
        with self._lock:
            self._kept.append(denial)
            self.total += 1
        if self._told is not None:
            try:
                self._told(denial)
            except Exception:
                with self._lock:
                    self.failures += 1

    def _shown(self, tool: str, arguments: Arguments) -> tuple[tuple[str, ...], str, Any]:
        from spanfuse.reading.kept import kept_of

        try:
            value = arguments.value
            fields = [str(name)[:_MAX_NAME_CHARS] for name in value][:_MAX_FIELDS] if isinstance(value, Mapping) else []
            return tuple(fields), str(kept_of(tool, value).print), value if self._keep_arguments else None
        except Exception:  # of a foreign object, or of what cannot be read
            return (), _UNREADABLE, None
