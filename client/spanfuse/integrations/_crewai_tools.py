"""CrewAI's tools, by its hooks around each of them."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crewai.hooks import register_after_tool_call_hook, register_before_tool_call_hook

from spanfuse.blocked import Blocked
from spanfuse.integrations._bound import default_guard
from spanfuse.integrations._crewai_runs import whose
from spanfuse.integrations._names import told

if TYPE_CHECKING:
    from spanfuse.calls.tool_call import ToolCall
    from spanfuse.guard import Guard


@dataclass(frozen=True)
class Held:
    """An execution between its hooks."""

    arguments: Any
    """The very object that both hooks are given."""
    tool: ToolCall
    refusal: Blocked | None
    outer: Held | None
    """The one around it, of an agent that is a tool."""


_HELD: ContextVar[Held | None] = ContextVar("spanfuse_crewai_tool", default=None)


def guard_tools(guard: Guard | None = None) -> None:
    """Guard all tools of all agents in this process, from now on. What is refused is not executed, and the model is told so,
    with the reason where CrewAI asks its hooks after a refusal as well, which version 1.6 does not.

    Args:
        guard: whom to ask; None: one for the process, which needs no server.
    """
    asked = guard or default_guard()

    def before(context: Any) -> bool | None:
        arguments = context.tool_input
        tool = asked.tool(context.tool_name, dict(arguments or {}), **whose(context.task, context.agent))
        refusal = None
        try:
            tool.begin()
            tool.inside()
        except Blocked as error:
            refusal = error
        outer = _HELD.get()
        if outer is not None and outer.refusal is not None:  # nobody asked what became of it
            outer = outer.outer
        _HELD.set(Held(arguments, tool, refusal, outer))
        return None if refusal is None else False

    register_before_tool_call_hook(before)
    register_after_tool_call_hook(after)


def after(context: Any) -> str | None:
    """Learn what a tool brought, or tell why it was refused."""
    held = _HELD.get()
    if held is None or held.arguments is not context.tool_input:
        return None
    _HELD.set(held.outer)
    if held.refusal is not None:
        return told(held.refusal)
    held.tool.outside()
    held.tool.result(context.tool_result)
    held.tool.end()
    return None
