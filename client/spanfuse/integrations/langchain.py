"""LangChain and LangGraph: a callback handler for whatever runs, and a middleware for agents of `create_agent`.

>>> graph.invoke(state, config={"callbacks": [GuardCallback(guard)]})
>>> agent = create_agent(model, tools, middleware=[GuardMiddleware(guard)])
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

try:
    from langchain_core.callbacks import BaseCallbackHandler
except ImportError as error:  # pragma: no cover  Proven in an interpreter without it.
    raise ImportError("this integration needs the extra langchain: pip install 'spanfuse[langchain]'") from error

from spanfuse.integrations._bound import default_guard
from spanfuse.integrations._langchain_messages import as_dicts, as_response, max_tokens
from spanfuse.integrations._names import described, otherwise, safely

if TYPE_CHECKING:
    from spanfuse.calls.model_call import ModelCall
    from spanfuse.calls.tool_call import ToolCall
    from spanfuse.guard import Guard
    from spanfuse.integrations.langchain_middleware import GuardMiddleware

__all__ = ["GuardCallback", "GuardMiddleware"]

MAX_RUNS: Final = 10_000
"""Runs that a handler follows at a time; beyond that the oldest is taken for one that never ends."""


def __getattr__(name: str) -> Any:
    if name == "GuardMiddleware":  # Needs `langchain` itself, the handler only `langchain-core`.
        from spanfuse.integrations.langchain_middleware import GuardMiddleware

        return GuardMiddleware
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class GuardCallback(BaseCallbackHandler):
    """Guards each model call and each tool of the runs that it is given to, those of subgraphs and other agents included.

    What is refused raises `Blocked` where the call was made; a tool that is denied, too, since a handler cannot answer for it.
    A call in no session is in that of its thread (`thread_id`), else in one of its run. It adds no nudges: `GuardMiddleware`
    does.

    Args:
        guard: whom to ask; None: one for the process, which needs no server.
    """

    raise_error = True

    def __init__(self, guard: Guard | None = None) -> None:
        self._guard = guard or default_guard()
        # In asynchronous code, which must not wait: in a thread. Else at once, which costs less, and lets a guarded client
        # inside know that it makes the same call.
        self.run_inline = not self._guard.may_wait
        self._roots: dict[UUID, UUID] = {}
        self._calls: dict[UUID, ModelCall] = {}
        self._tools: dict[UUID, ToolCall] = {}

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **told: Any
    ) -> None:
        """A run begins, to which its calls belong."""
        _keep(self._roots, run_id, self._root(run_id, parent_run_id))

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **told: Any) -> None:
        """It is over."""
        self._roots.pop(run_id, None)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **told: Any) -> None:
        """It failed."""
        self._roots.pop(run_id, None)

    def on_chat_model_start(self, serialized: Any, messages: list[list[Any]], *, run_id: UUID, **told: Any) -> None:
        """A model is about to be called.

        Raises:
            Blocked: it must not be.
        """
        self._begin(run_id, told, lambda: {"messages": as_dicts(messages[0])})

    def on_llm_start(self, serialized: Any, prompts: list[str], *, run_id: UUID, **told: Any) -> None:
        """The same for a model that completes texts."""
        self._begin(run_id, told, lambda: {"prompt": prompts[0], "operation": "text_completion"})

    def on_llm_new_token(self, token: Any, *, run_id: UUID, **told: Any) -> None:
        """The answer has begun: what whoever reads it does meanwhile is no part of the call."""
        if (call := self._calls.get(run_id)) is not None:
            call.outside()

    def on_llm_end(self, response: Any, *, run_id: UUID, **told: Any) -> None:
        """The model has answered."""
        if (call := self._calls.pop(run_id, None)) is not None:
            call.outside()
            call.answered(safely(self._guard, lambda: _answer(response)))
            call.end()

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **told: Any) -> None:
        """The call failed, or its stream was left."""
        if (call := self._calls.pop(run_id, None)) is not None:
            call.outside()
            call.seen(safely(self._guard, lambda: _text(told["response"])) or "")
            call.end(error)

    def on_tool_start(
        self, serialized: Any, input_str: str, *, run_id: UUID, parent_run_id: UUID | None = None, **told: Any
    ) -> None:
        """A tool is about to be executed.

        Raises:
            Blocked: it must not be.
        """
        root = self._root(run_id, parent_run_id)
        name = (serialized or {}).get("name") or told.get("name") or ""
        given = told.get("inputs")
        tool = self._guard.tool(
            name,
            input_str if given is None else given,
            call_id=told.get("tool_call_id") or "",
            **otherwise(_session(told, root)),
        )
        tool.begin()
        tool.inside()
        _keep(self._roots, run_id, root)
        _keep(self._tools, run_id, tool)

    def on_tool_end(self, output: Any, *, run_id: UUID, **told: Any) -> None:
        """The tool has answered."""
        self._roots.pop(run_id, None)
        if (tool := self._tools.pop(run_id, None)) is not None:
            tool.outside()
            tool.result(getattr(output, "content", output))
            tool.end()

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **told: Any) -> None:
        """The tool failed."""
        self._roots.pop(run_id, None)
        if (tool := self._tools.pop(run_id, None)) is not None:
            tool.outside()
            tool.end(error)

    def _root(self, run_id: UUID, parent: UUID | None) -> UUID:
        """The run in which everything else runs."""
        return run_id if parent is None else self._roots.get(parent, parent)

    def _begin(self, run_id: UUID, told: dict[str, Any], asked: Callable[[], dict[str, Any]]) -> None:
        whose = otherwise(_session(told, self._root(run_id, told.get("parent_run_id"))))
        call = self._guard.call(**described(self._guard, lambda: _sent(told) | asked()), **whose)
        call.begin()
        call.inside()
        _keep(self._calls, run_id, call)


def _sent(told: dict[str, Any]) -> dict[str, Any]:
    known, sent = told.get("metadata") or {}, told.get("invocation_params") or {}
    return {
        "model": known.get("ls_model_name") or sent.get("model") or sent.get("model_name") or "",
        "provider": known.get("ls_provider") or "",
        "tools": sent.get("tools"),
        "max_output_tokens": max_tokens(sent),
    }


def _session(told: dict[str, Any], root: UUID) -> str:
    known = told.get("metadata") or {}
    return str(known.get("session_id") or known.get("thread_id") or root)


def _answer(response: Any) -> Any:
    """What came back, as the response of a provider; of several candidates the first has the usage of all."""
    first = next((candidate for run in response.generations for candidate in run), None)
    message = getattr(first, "message", None)
    return getattr(first, "text", None) if message is None else as_response(message)


def _text(response: Any) -> str:
    """What had come of an answer."""
    return "".join(candidate.text for run in response.generations for candidate in run)


def _keep(kept: dict[UUID, Any], run_id: UUID, value: Any) -> None:
    kept[run_id] = value
    if len(kept) > MAX_RUNS:
        with suppress(StopIteration, RuntimeError):  # other threads keep theirs
            kept.pop(next(iter(kept)), None)
