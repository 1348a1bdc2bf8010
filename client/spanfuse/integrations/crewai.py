"""CrewAI: a model that is guarded, and the tools of all agents in the process.

>>> guard_tools(guard)
>>> agent = Agent(role="finder", …, llm=wrap_llm(LLM(model="gpt-4o"), guard))
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from spanfuse.blocked import Blocked
from spanfuse.integrations._bound import default_guard
from spanfuse.integrations._crewai_runs import stop, whose
from spanfuse.integrations._crewai_tools import guard_tools
from spanfuse.integrations._names import described, safely
from spanfuse.reading.token_usage import field_of

if TYPE_CHECKING:
    from spanfuse.calls.model_call import ModelCall
    from spanfuse.guard import Guard

__all__ = ["guard_tools", "wrap_llm"]

L = TypeVar("L")
F = TypeVar("F", bound=Callable[..., Any])

_TAKEN: ContextVar[list[Any]] = ContextVar("spanfuse_crewai_usage")
"""What the provider says that the call at hand took."""


def wrap_llm(llm: L, guard: Guard | None = None) -> L:
    """Guard a model, in place: each of its calls asks the Guard first.

    A refusal reaches whoever kicked the crew off, as `Blocked`; a version that knows `HookAborted` does not run the task again,
    an older one asks `max_retry_limit` times more, and is refused as often.

    Args:
        llm: the model. One that is guarded already stays as it is.
        guard: whom to ask; None: one for the process, which needs no server.

    Returns:
        The model.
    """
    if not hasattr(llm, "_spanfuse"):
        kind: Any = type(llm)
        object.__setattr__(llm, "__class__", _guarded(kind, guard or default_guard()))
    return llm


def _whole(method: F) -> F:
    """A method that CrewAI leaves as it is: what it tries again after a provider's limit is the same call."""
    method._crewai_rate_limit_wrapped = True  # type: ignore[attr-defined]
    return method


@functools.lru_cache(maxsize=64)
def _guarded(kind: Any, guard: Guard) -> Any:
    """The class of a model, with calls that ask. Its objects hold nothing more, so that one that is there can be made one of
    these, and is copied and written down as before."""

    class Guarded(kind):
        _spanfuse: ClassVar[Guard] = guard

        @_whole
        def call(self, messages: Any, tools: Any = None, *args: Any, **kwargs: Any) -> Any:
            with _stopping(), _call(self, messages, tools, kwargs) as made:
                answer = super().call(_nudged(messages, made.nudge), tools, *args, **kwargs)
                made.answered(safely(guard, lambda: _response(self, answer)))
                return answer

        @_whole
        async def acall(self, messages: Any, tools: Any = None, *args: Any, **kwargs: Any) -> Any:
            with _stopping():
                async with _call(self, messages, tools, kwargs) as made:
                    answer = await super().acall(_nudged(messages, made.nudge), tools, *args, **kwargs)
                    made.answered(safely(guard, lambda: _response(self, answer)))
                    return answer

        def _track_token_usage_internal(self, usage_data: Any) -> None:
            if (taken := _TAKEN.get(None)) is not None:
                taken.append(usage_data)
            super()._track_token_usage_internal(usage_data)

    Guarded.__name__, Guarded.__qualname__, Guarded.__module__ = kind.__name__, kind.__qualname__, kind.__module__
    return Guarded


@contextmanager
def _stopping() -> Iterator[None]:
    """Around a call: what it took is collected, and a refusal passes CrewAI's loops."""
    collected = _TAKEN.set([])
    try:
        yield
    except Blocked as refusal:
        raise stop(refusal) from None
    finally:
        _TAKEN.reset(collected)


def _call(llm: Any, messages: Any, tools: Any, known: dict[str, Any]) -> ModelCall:
    def read() -> dict[str, Any]:
        most = field_of(llm, "max_completion_tokens") or field_of(llm, "max_tokens")
        return {
            "model": field_of(llm, "model") or "",
            "provider": field_of(llm, "provider") or "",
            "prompt" if isinstance(messages, str) else "messages": messages,
            "tools": tools,
            "max_output_tokens": int(most) if most else None,
            **whose(known.get("from_task"), known.get("from_agent")),
        }

    return llm._spanfuse.call(**described(llm._spanfuse, read))  # type: ignore[no-any-return]


def _nudged(messages: Any, nudge: str) -> Any:
    if not nudge:
        return messages
    said = {"role": "user", "content": nudge}
    return [{"role": "user", "content": messages}, said] if isinstance(messages, str) else [*messages, said]


def _response(llm: Any, answer: Any) -> dict[str, Any]:
    """An answer, which is a text, calls of tools, or an object that was asked for, as the response of a provider."""
    called = isinstance(answer, list)
    message = {"role": "assistant", "content": "" if called else _text(answer)}
    taken = _TAKEN.get([])
    return {
        "model": field_of(llm, "model") or "",
        "choices": [{"message": message | ({"tool_calls": answer} if called else {})}],
        "usage": taken[-1] if taken else None,
    }


def _text(answer: Any) -> str:
    return answer.model_dump_json() if hasattr(answer, "model_dump_json") else str(answer)
