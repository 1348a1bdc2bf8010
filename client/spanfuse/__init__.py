"""The in-process SDK of spanfuse.

>>> from spanfuse import Guard
>>> guard = Guard("http://127.0.0.1:8787")
>>> with guard.session("run-1", agent="planner"):
...     guard.check()  # raises Blocked when the session, its agent, user or team is stopped

Importing it loads the standard library only; pydantic comes with the first Guard, every other package with its extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spanfuse.blocked import Blocked
from spanfuse.context import session
from spanfuse.guard import Guard
from spanfuse.verdict import Verdict

if TYPE_CHECKING:
    from spanfuse.otel import instrument

__all__ = ["Blocked", "Guard", "Verdict", "instrument", "session"]


def __getattr__(name: str) -> Any:
    if name == "instrument":  # Loads OpenTelemetry, which not every host has.
        from spanfuse.otel import instrument

        return instrument
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
