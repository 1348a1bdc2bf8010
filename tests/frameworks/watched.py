"""A Guard that remembers the calls and tools it was told of."""

from __future__ import annotations

from typing import Any, Self

from spanfuse.calls.model_call import ModelCall
from spanfuse.calls.tool_call import ToolCall
from spanfuse.testing import FakeGuard
from spanfuse_schemas import Decision


class Watched(FakeGuard):
    """A `FakeGuard` with a listener.

    Attributes:
        calls: model calls that ended.
        executed: tools that ended.
    """

    def __init__(self, *decisions: Decision, **settings: Any) -> None:
        super().__init__(*decisions, **settings)
        self.calls: list[ModelCall] = []
        self.executed: list[ToolCall] = []
        self.listen(_Listener(self))

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    @property
    def said(self) -> list[Any]:
        """The text of each call's first reply."""
        return [c.answer.reply[0]["content"] if c.answer and c.answer.reply else None for c in self.calls]

    @property
    def tokens(self) -> list[tuple[int | None, int | None]]:
        """Input and output tokens of each call."""
        return [(c.answer.input_tokens, c.answer.output_tokens) if c.answer else (None, None) for c in self.calls]


class _Listener:
    def __init__(self, guard: Watched) -> None:
        self._guard = guard

    def ended(self, call: ModelCall) -> None:
        self._guard.calls.append(call)

    def tool_ended(self, tool: ToolCall) -> None:
        self._guard.executed.append(tool)
