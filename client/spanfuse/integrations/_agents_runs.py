"""OpenAI's Agents SDK: the run at hand, and its function tools, guarded by the guardrails that the SDK has for them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from agents import FunctionTool
from agents.tool_guardrails import ToolGuardrailFunctionOutput, ToolInputGuardrail, ToolOutputGuardrail
from agents.tracing import get_current_span, get_current_trace

from spanfuse.blocked import Blocked
from spanfuse.integrations._names import otherwise, told

if TYPE_CHECKING:
    from spanfuse.guard import Guard

_HELD = "_spanfuse_tool"
"""Where the context of an execution, which both guardrails are given, keeps ours."""


class Asks(ToolInputGuardrail[Any]):
    """Asks before a tool is executed; the model is told of a refusal in place of a result."""

    def __init__(self, guard: Guard) -> None:
        super().__init__(guardrail_function=self._ask, name="spanfuse")
        self.guard = guard

    async def _ask(self, data: Any) -> ToolGuardrailFunctionOutput:
        context, agent = data.context, data.agent
        tool = self.guard.tool(
            context.tool_name,
            _parsed(context.tool_arguments),
            call_id=context.tool_call_id,
            **whose() | otherwise(None, agent.name),
        )
        try:
            await tool.abegin()
        except Blocked as refusal:
            return ToolGuardrailFunctionOutput.reject_content(told(refusal), output_info=refusal.rule)
        tool.inside()
        vars(context)[_HELD] = tool
        return ToolGuardrailFunctionOutput.allow()


class Learns(ToolOutputGuardrail[Any]):
    """Learns what a tool brought."""

    def __init__(self) -> None:
        super().__init__(guardrail_function=self._learn, name="spanfuse")

    async def _learn(self, data: Any) -> ToolGuardrailFunctionOutput:
        tool = vars(data.context).pop(_HELD, None)
        if tool is not None:
            tool.outside()
            tool.result(data.output)
            await tool.aend()
        return ToolGuardrailFunctionOutput.allow()


def guard_tools(tools: Iterable[Any], guard: Guard) -> None:
    """Guard the function tools among these in place, each once: last before it is executed, first after it."""
    for tool in tools:
        asking = tool.tool_input_guardrails or [] if isinstance(tool, FunctionTool) else None
        if asking is not None and not any(isinstance(guardrail, Asks) for guardrail in asking):
            tool.tool_output_guardrails = [Learns(), *(tool.tool_output_guardrails or [])]
            tool.tool_input_guardrails = [*asking, Asks(guard)]


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def whose() -> dict[str, Any]:
    """Whose call is made, by the SDK's own trace."""
    trace, span = get_current_trace(), get_current_span()
    data = getattr(span, "span_data", None)
    agent = getattr(data, "agent_name", None)  # of a turn; where the SDK knows none, its span is the agent's
    if agent is None and getattr(data, "type", "") == "agent":
        agent = getattr(data, "name", None)
    return otherwise(_run(trace), agent)


def _run(trace: Any) -> str | None:
    """The name of a run: of its group, else of its trace. Where tracing is off, traces have no names, but are there."""
    if trace is None:
        return None
    if group := getattr(trace, "group_id", None):
        return str(group)
    named = str(trace.trace_id)
    return named if named != "no-op" else str(vars(trace).setdefault("_spanfuse", uuid.uuid4().hex))
