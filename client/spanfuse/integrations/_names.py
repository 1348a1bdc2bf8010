"""What integrations say of a call: whose it is where the user names nobody, and what can be read of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spanfuse import context

if TYPE_CHECKING:
    from spanfuse.guard import Guard


def otherwise(session: object) -> dict[str, Any]:
    """The framework's own name of a run, for calls that are in no session and no trace; nothing for others.

    A session that is named, or a trace, which the server sees as well, comes first: only under these names do its decisions
    meet the call.
    """
    who = context.current()
    if session is None or who.session or who.trace or context.trace_source():
        return {}
    return {"session": session}


def described(guard: Guard, read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The arguments of a `Guard.call` or `Guard.tool` as `read` gives them; where it fails, which is counted, none: the call is
    guarded all the same."""
    try:
        return read()
    except Exception:
        guard.failed()
        return {}
