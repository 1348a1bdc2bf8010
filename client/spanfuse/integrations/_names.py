"""What integrations say of a call: whose it is where the user names nobody, and what can be read of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from spanfuse import context
from spanfuse.tools.denied import ToolDenied

if TYPE_CHECKING:
    from spanfuse.blocked import Blocked
    from spanfuse.guard import Guard

T = TypeVar("T")


def otherwise(session: object, agent: object = None) -> dict[str, Any]:
    """What the framework itself calls a run and its agent, for calls that are in no session and no trace, and of no agent that
    is named; nothing for others.

    A session that is named, or a trace, which the server sees as well, comes first: only under these names do its decisions
    meet the call.
    """
    who, names = context.current(), {}
    if session is not None and not (who.session or who.trace or context.trace_source()):
        names["session"] = session
    if agent and not who.agent:
        names["agent"] = agent
    return names


def safely(guard: Guard, read: Callable[[], T]) -> T | None:
    """What `read` reads of a framework's objects; None where it fails, which is counted: the call is guarded all the same."""
    try:
        return read()
    except Exception:
        guard.failed()
        return None


def described(guard: Guard, read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The arguments of a `Guard.call` as `read` gives them; where it fails, none."""
    return safely(guard, read) or {}


def told(refusal: Blocked) -> str:
    """What a model is told in place of the result of a tool."""
    return refusal.tool_result if isinstance(refusal, ToolDenied) else str(refusal)
