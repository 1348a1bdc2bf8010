"""Pydantic AI: a model and a toolset that are guarded; or, as of its version 2, a capability that guards an agent.

>>> agent = Agent("openai:gpt-4o", tools=[search], capabilities=[GuardCapability(guard)])
>>> agent = Agent(GuardedModel("openai:gpt-4o", guard), toolsets=[GuardedToolset(tools, guard)])
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

try:
    from pydantic_ai.messages import ModelRequest, UserPromptPart
    from pydantic_ai.models.wrapper import WrapperModel
    from pydantic_ai.toolsets import WrapperToolset
except ImportError as error:  # pragma: no cover  Proven in an interpreter without it.
    raise ImportError("this integration needs the extra pydantic-ai: pip install 'spanfuse[pydantic-ai]'") from error

from spanfuse.blocked import Blocked
from spanfuse.integrations._bound import default_guard
from spanfuse.integrations._names import described, otherwise, safely, told
from spanfuse.integrations._pydantic_messages import as_dicts, as_response, instructions

if TYPE_CHECKING:
    from spanfuse.calls.model_call import ModelCall
    from spanfuse.guard import Guard
    from spanfuse.integrations._pydantic_capability import GuardCapability

__all__ = ["GuardCapability", "GuardedModel", "GuardedToolset"]


def __getattr__(name: str) -> Any:
    if name == "GuardCapability":  # There are none before version 2.
        from spanfuse.integrations._pydantic_capability import GuardCapability

        return GuardCapability
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class GuardedModel(WrapperModel):
    """A model whose requests ask the Guard first: `Blocked` reaches whoever runs the agent, also through a `FallbackModel`.

    A call that is in no session is in that of its conversation, else in one of its run.

    Args:
        wrapped: the model, or its name such as `openai:gpt-4o`.
        guard: whom to ask; None: one for the process, which needs no server.
    """

    def __init__(self, wrapped: Any, guard: Guard | None = None) -> None:
        super().__init__(wrapped)
        self._guard = guard or default_guard()

    async def request(self, messages: list[Any], model_settings: Any, model_request_parameters: Any) -> Any:
        """A whole answer.

        Raises:
            Blocked: the call is refused.
        """
        async with self._call(messages, model_settings, model_request_parameters) as call:
            sent = _nudged(messages, call.nudge)
            response = await self.wrapped.request(sent, model_settings, model_request_parameters)
            call.answered(safely(self._guard, lambda: as_response(response)))
            return response

    @asynccontextmanager
    async def request_stream(
        self, messages: list[Any], model_settings: Any, model_request_parameters: Any, run_context: Any = None
    ) -> AsyncIterator[Any]:
        """An answer in pieces; it is over when the block is left.

        Raises:
            Blocked: the call is refused.
        """
        call = self._call(messages, model_settings, model_request_parameters)
        await call.abegin()
        try:
            async with AsyncExitStack() as opened:
                sent = _nudged(messages, call.nudge)
                call.inside()
                try:
                    begun = self.wrapped.request_stream(sent, model_settings, model_request_parameters, run_context)
                    stream = await opened.enter_async_context(begun)
                finally:
                    call.outside()
                try:
                    yield stream
                finally:
                    call.answered(safely(self._guard, lambda: as_response(stream.get())))
        except BaseException as error:
            await call.aend(error)
            raise
        await call.aend()

    def _call(self, messages: list[Any], settings: Any, parameters: Any) -> ModelCall:
        def read() -> dict[str, Any]:
            return {
                "model": self.wrapped.model_name,
                "provider": self.wrapped.system,
                "messages": as_dicts(messages),
                "system": instructions(messages),
                "tools": [_offered(tool) for tool in parameters.function_tools] or None,
                "max_output_tokens": (settings or {}).get("max_tokens"),
                **otherwise(_run(messages)),
            }

        return self._guard.call(**described(self._guard, read))


@dataclass
class GuardedToolset(WrapperToolset[Any]):
    """Tools that ask the Guard before they are executed. The model is told of a refusal in place of a result.

    Args:
        wrapped: the toolset.
        guard: whom to ask; None: one for the process, which needs no server.
    """

    guard: Guard | None = None

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        """Execute a tool, unless it is refused."""
        guard = self.guard or default_guard()
        whose = otherwise(getattr(ctx, "conversation_id", None) or getattr(ctx, "run_id", None))
        try:
            async with guard.tool(name, tool_args, call_id=ctx.tool_call_id or "", **whose) as executed:
                return executed.result(await self.wrapped.call_tool(name, tool_args, ctx, tool))
        except Blocked as refusal:
            return told(refusal)


def _run(messages: list[Any]) -> str | None:
    """The conversation, else the run, that the newest message is of."""
    newest = messages[-1] if messages else None
    return getattr(newest, "conversation_id", None) or getattr(newest, "run_id", None)


def _nudged(messages: list[Any], nudge: str) -> list[Any]:
    """A copy whose last request says it as well, so that requests and responses still alternate."""
    if not nudge:
        return messages
    said = UserPromptPart(content=nudge)
    if messages and isinstance(messages[-1], ModelRequest):
        return [*messages[:-1], replace(messages[-1], parts=[*messages[-1].parts, said])]
    return [*messages, ModelRequest(parts=[said])]


def _offered(tool: Any) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema}
