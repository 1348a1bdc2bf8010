"""The in-process SDK of spanfuse.

>>> from spanfuse import Guard
>>> guard = Guard("http://127.0.0.1:8787")
>>> with guard.session("run-1", agent="planner"):
...     guard.check()  # raises Blocked when the session, its agent, user or team is stopped

Importing it loads the standard library only; pydantic comes with the first Guard, every other package with its extra:
`instrument` with OpenTelemetry, `wrap_openai`, `wrap_anthropic` and `wrap_litellm` with the library that they guard.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from spanfuse.blocked import Blocked
from spanfuse.context import session
from spanfuse.decisions.verdict import Verdict
from spanfuse.guard import Guard

if TYPE_CHECKING:
    from spanfuse.integrations.anthropic import wrap_anthropic as wrap_anthropic
    from spanfuse.integrations.litellm import wrap_litellm as wrap_litellm
    from spanfuse.integrations.openai import wrap_openai as wrap_openai
    from spanfuse.otel import instrument

__all__ = ["Blocked", "Guard", "Verdict", "instrument", "session"]


_WITH_EXTRAS: Final = {
    "instrument": "spanfuse.otel",
    "wrap_anthropic": "spanfuse.integrations.anthropic",
    "wrap_litellm": "spanfuse.integrations.litellm",
    "wrap_openai": "spanfuse.integrations.openai",
}
"""Name → its module, which loads what not every host has."""


def __getattr__(name: str) -> Any:
    if name in _WITH_EXTRAS:
        return getattr(import_module(_WITH_EXTRAS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
