"""OpenAI's Agents SDK: a provider of models, or a model, that is guarded with the function tools it is offered.

>>> await Runner.run(agent, "…", run_config=RunConfig(model_provider=GuardedProvider(guard)))
>>> agent = Agent(name="planner", model=GuardedModel(model, guard), tools=tools)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

try:
    from agents import Model, ModelProvider, MultiProvider
except ImportError as error:  # pragma: no cover  Proven in an interpreter without it.
    raise ImportError(
        "this integration needs the extra openai-agents: pip install 'spanfuse[openai-agents]'"
    ) from error

from spanfuse.blocked import Blocked
from spanfuse.calls.generators import within
from spanfuse.integrations._agents_runs import guard_tools, whose
from spanfuse.integrations._bound import default_guard
from spanfuse.integrations._names import described, safely
from spanfuse.reading.asked import nudged

if TYPE_CHECKING:
    from spanfuse.calls.model_call import ModelCall
    from spanfuse.guard import Guard

__all__ = ["GuardedModel", "GuardedProvider"]


class GuardedProvider(ModelProvider):
    """Gives guarded models.

    Args:
        guard: whom to ask; None: one for the process, which needs no server.
        provider: gives the models; default: the SDK's own.
    """

    def __init__(self, guard: Guard | None = None, provider: ModelProvider | None = None) -> None:
        self._guard, self._provider = guard or default_guard(), provider or MultiProvider()

    def get_model(self, model_name: str | None) -> Model:
        """A model by its name."""
        return GuardedModel(self._provider.get_model(model_name), self._guard)

    async def aclose(self) -> None:
        """Release what the provider holds."""
        if hasattr(self._provider, "aclose"):
            await self._provider.aclose()


class GuardedModel(Model):
    """A model whose calls ask the Guard first, before each attempt: `Blocked` reaches whoever runs the agent.

    The function tools that it is offered, those of MCP servers and other agents included, are guarded from then on: what is
    refused is not executed, and the model is told why. A call that is in no session is in that of the trace's group, else in
    one of its trace. Tools that the provider executes cannot be guarded.

    Args:
        model: the model.
        guard: whom to ask; None: one for the process, which needs no server.
    """

    def __init__(self, model: Model, guard: Guard | None = None) -> None:
        self._model, self._guard = model, guard or default_guard()

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
        """A whole answer.

        Raises:
            Blocked: the call is refused.
        """
        async with self._call(system_instructions, input, *args, **kwargs) as call:
            response = await self._model.get_response(system_instructions, _nudged(input, call.nudge), *args, **kwargs)
            call.answered(response)
            return response

    async def stream_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """An answer in pieces.

        Raises:
            Blocked: the call is refused.
        """
        call = self._call(system_instructions, input, *args, **kwargs)
        await call.abegin()
        try:
            stream = self._model.stream_response(system_instructions, _nudged(input, call.nudge), *args, **kwargs)
            async for event in within(call, stream):
                call.chunk(event)
                yield event
        except BaseException as error:
            await call.aend(error)
            raise
        await call.aend()

    def get_retry_advice(self, request: Any) -> Any:
        """What the model knows of a failure; of a refusal: no attempt can change it."""
        if isinstance(request.error, Blocked):
            from agents.retry import ModelRetryAdvice, ModelRetryNormalizedError

            return ModelRetryAdvice(suggested=False, normalized=ModelRetryNormalizedError(is_abort=True))
        return self._model.get_retry_advice(request)

    def __getattr__(self, name: str) -> Any:
        if name == "_model":  # not yet, as in a copy
            raise AttributeError(name)
        return getattr(self._model, name)

    async def close(self) -> None:
        """Release what the model holds."""
        await self._model.close()

    async def _cleanup_on_run_end(self, owner: Any) -> None:
        await self._model._cleanup_on_run_end(owner)

    def _call(
        self,
        system: Any,
        asked: Any,
        settings: Any = None,
        tools: Any = None,
        *args: Any,
        model_settings: Any = None,
        **kwargs: Any,
    ) -> ModelCall:
        offered = tools or ()
        safely(self._guard, lambda: guard_tools(offered, self._guard))
        return self._guard.call(
            **described(self._guard, lambda: self._described(system, asked, settings or model_settings, offered))
        )

    def _described(self, system: Any, asked: Any, settings: Any, tools: Any) -> dict[str, Any]:
        return {
            "model": str(getattr(self._model, "model", "")),
            "provider": "openai",
            "prompt" if isinstance(asked, str) else "messages": asked,
            "system": system,
            "tools": [_told(tool) for tool in tools] or None,
            "max_output_tokens": getattr(settings, "max_tokens", None),
            **whose(),
        }


def _told(tool: Any) -> dict[str, Any]:
    schema = getattr(tool, "params_json_schema", None)
    return {"name": tool.name, "description": getattr(tool, "description", ""), "parameters": schema}


def _nudged(asked: Any, nudge: str) -> Any:
    return nudged("responses", {"input": asked}, nudge)["input"] if nudge else asked
