"""MCP: the tools of a server, as a client's session calls them.

>>> async with ClientSession(read, write) as session:
...     wrap_session(session, guard)
...     result = await session.call_tool("search", {"query": "spanfuse"})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

try:
    from mcp.types import CallToolResult, TextContent
except ImportError as error:  # pragma: no cover  Proven in an interpreter without it.
    raise ImportError("this integration needs the extra mcp: pip install 'spanfuse[mcp]'") from error

from spanfuse.blocked import Blocked
from spanfuse.integrations._bound import default_guard
from spanfuse.integrations._names import safely, told

if TYPE_CHECKING:
    from spanfuse.guard import Guard

__all__ = ["wrap_session"]

S = TypeVar("S")


def wrap_session(session: S, guard: Guard | None = None) -> S:
    """Guard the tools that a client calls, in place: what is refused never reaches the server, and is answered with a result
    that is an error and says why.

    Args:
        session: a `ClientSession`, a `Client`, or whatever has their method `call_tool`, as servers of agent frameworks. One
            that is guarded already stays as it is.
        guard: whom to ask; None: one for the process, which needs no server.

    Returns:
        The session.
    """
    asking, target = guard or default_guard(), session
    call_tool: Any = getattr(target, "call_tool")  # noqa: B009 - of any type
    if getattr(call_tool, "guarded", False):
        return session

    async def guarded(name: str, arguments: dict[str, Any] | None = None, *args: Any, **kwargs: Any) -> Any:
        try:
            async with asking.tool(name, arguments or {}) as tool:
                result = await call_tool(name, arguments, *args, **kwargs)
                tool.result(safely(asking, lambda: _brought(result)))
                return result
        except Blocked as refusal:
            return CallToolResult(content=[TextContent(type="text", text=told(refusal))], isError=True)

    guarded.guarded = True  # type: ignore[attr-defined]
    setattr(target, "call_tool", guarded)  # noqa: B010
    return session


def _brought(result: Any) -> Any:
    """What a result says, in the form of a message that has it."""
    content = getattr(result, "content", None)
    said = (
        [getattr(part, "text", None) or str(part) for part in content] if isinstance(content, list) else [str(result)]
    )
    failed = getattr(result, "is_error", None) or getattr(result, "isError", None)
    return {"content": "\n".join(said), "is_error": True} if failed else "\n".join(said)
