"""LangChain's agents: a middleware around each model call and each tool of `create_agent`."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest
    from langchain.agents.middleware.types import PrivateStateAttr
    from langchain_core.messages import HumanMessage, ToolMessage
    from langgraph.config import get_config
except ImportError as error:  # pragma: no cover  Proven in an interpreter without it.
    raise ImportError("this integration needs the extra langchain: pip install 'spanfuse[langchain]'") from error

from spanfuse.integrations._bound import default_guard
from spanfuse.integrations._langchain_messages import as_dicts, as_response, max_tokens
from spanfuse.integrations._names import described, otherwise, safely
from spanfuse.tools.denied import ToolDenied

if TYPE_CHECKING:
    from spanfuse.calls.model_call import ModelCall
    from spanfuse.calls.tool_call import ToolCall
    from spanfuse.guard import Guard


class GuardedState(AgentState):
    """What an agent remembers of its Guard."""

    spanfuse_session: NotRequired[Annotated[str, PrivateStateAttr]]  # type: ignore[valid-type]
    """The session of calls that are in no other: one per thread, without a checkpointer one per run."""


class GuardMiddleware(AgentMiddleware):
    """Guards each model call and each tool of an agent.

    A model call that is refused raises `Blocked`; a tool that is denied answers the model with the reason. Nudges are added to
    the messages of the one call, not to the agent's state. Put it first in the list: what follows, such as a middleware that
    retries, then cannot keep a refusal from you.

    Args:
        guard: whom to ask; None: one for the process, which needs no server.
    """

    state_schema = GuardedState

    def __init__(self, guard: Guard | None = None) -> None:
        super().__init__()
        self._guard = guard or default_guard()

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Give the run a name, should nobody else."""
        if state.get("spanfuse_session"):
            return None
        thread = get_config().get("configurable", {}).get("thread_id")
        return {"spanfuse_session": str(thread) if thread else uuid.uuid4().hex}

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Make a model call, unless it is refused.

        Raises:
            Blocked: it is.
        """
        with self._call(request) as call:
            response = handler(_nudged(request, call.nudge))
            call.answered(safely(self._guard, lambda: _answer(response)))
            return response

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The same."""
        async with self._call(request) as call:
            response = await handler(_nudged(request, call.nudge))
            call.answered(safely(self._guard, lambda: _answer(response)))
            return response

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Execute a tool, unless it is refused.

        Raises:
            Blocked: its session is stopped.
        """
        try:
            with self._tool(request) as tool:
                result = handler(request)
                tool.result(getattr(result, "content", result))
                return result
        except ToolDenied as refusal:
            return _told(request, refusal)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The same."""
        try:
            async with self._tool(request) as tool:
                result = await handler(request)
                tool.result(getattr(result, "content", result))
                return result
        except ToolDenied as refusal:
            return _told(request, refusal)

    def _call(self, request: Any) -> ModelCall:
        return self._guard.call(**described(self._guard, lambda: _asked(request)))

    def _tool(self, request: Any) -> ToolCall:
        called = request.tool_call
        return self._guard.tool(called["name"], called["args"], call_id=called["id"] or "", **_whose(request))


def _asked(request: Any) -> dict[str, Any]:
    model = request.model
    known = model._get_ls_params()
    return {
        "model": known.get("ls_model_name") or "",
        "provider": known.get("ls_provider") or "",
        "messages": as_dicts(request.messages),
        "system": request.system_prompt,
        "tools": request.tools or None,
        "max_output_tokens": max_tokens(request.model_settings) or max_tokens(model),
        **_whose(request),
    }


def _whose(request: Any) -> dict[str, Any]:
    return otherwise(request.state.get("spanfuse_session"))


def _nudged(request: ModelRequest[Any], nudge: str) -> ModelRequest[Any]:
    return request.override(messages=[*request.messages, HumanMessage(nudge)]) if nudge else request


def _answer(response: Any) -> Any:
    """The model's message among what came back, as the response of a provider."""
    found = getattr(response, "model_response", response)
    messages = getattr(found, "result", None) or [found]
    return as_response(next((m for m in messages if getattr(m, "type", "") == "ai"), messages[0]))


def _told(request: Any, refusal: ToolDenied) -> ToolMessage:
    called = request.tool_call
    return ToolMessage(refusal.tool_result, name=called["name"], tool_call_id=called["id"], status="error")
