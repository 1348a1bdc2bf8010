"""What the pieces of a stream add up to: of OpenAI (chat, Responses, legacy completions), Anthropic, LiteLLM, and of texts.
Nothing here raises: what is not understood adds nothing.
"""

from __future__ import annotations

import json
from typing import Any, Final

from spanfuse.reading.answers import Answer, answer_of, read
from spanfuse.reading.token_usage import TokenUsage, field_of

_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
"""Events of the Responses API that hold the whole response."""
_BLOCK_DELTAS: Final = {"text_delta": "text", "input_json_delta": "partial_json", "thinking_delta": "thinking"}
"""Deltas of Anthropic's content blocks, and where their text is."""


class _Message:
    """One message that comes in pieces, as in the chunks of OpenAI: its text, and tool calls added up by index."""

    __slots__ = ("_calls", "_text", "_thoughts")

    def __init__(self) -> None:
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._calls: dict[Any, dict[str, str]] = {}

    def add(self, delta: Any) -> None:
        """A delta of it, or a text."""
        said = delta if isinstance(delta, str) else field_of(delta, "content")
        if isinstance(said, str):
            self._text.append(said)
        if isinstance(delta, str):
            return
        for name, into in (("refusal", self._text), ("reasoning_content", self._thoughts)):
            if isinstance(said := field_of(delta, name), str):
                into.append(said)
        for call in field_of(delta, "tool_calls") or ():
            self._call(field_of(call, "index"), call, field_of(call, "function"))
        if (function := field_of(delta, "function_call")) is not None:
            self._call("function_call", None, function)

    def _call(self, index: Any, call: Any, function: Any) -> None:
        known = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        known["id"] = field_of(call, "id") or known["id"]
        known["name"] = field_of(function, "name") or known["name"]
        known["arguments"] += field_of(function, "arguments") or ""

    def built(self) -> dict[str, Any]:
        """The message in the form of OpenAI's chat."""
        found: dict[str, Any] = {"role": "assistant", "content": "".join(self._text)}
        if self._thoughts:
            found["reasoning_content"] = "".join(self._thoughts)
        if self._calls:
            found["tool_calls"] = [
                {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
                for c in self._calls.values()
            ]
        return found


class Gathered:
    """What the pieces of a stream add up to, also of one that ended early.

    >>> gathered = Gathered()
    >>> for chunk in stream:
    ...     gathered.add(chunk)
    >>> gathered.answer()
    """

    __slots__ = ("_blocks", "_ended", "_id", "_items", "_messages", "_model", "_usage", "_whole")

    def __init__(self) -> None:
        self._whole: Answer | None = None
        self._messages: dict[Any, _Message] = {}
        self._blocks: dict[Any, tuple[dict[str, Any], list[str]]] = {}
        self._items: dict[Any, Any] = {}
        self._usage = TokenUsage()
        self._model = self._id = self._ended = ""

    def add(self, piece: Any) -> None:
        """A chunk or event, as an object or a dict, or a text."""
        try:
            if isinstance(piece, str):
                self._message(0).add(piece)
            elif (choices := field_of(piece, "choices")) is not None:
                self._chunk(piece, choices)
            else:
                self._event(piece, field_of(piece, "type"))
        except Exception:  # an object of who knows which library
            return

    def answer(self) -> Answer:
        """The answer as far as it came."""
        if self._whole is not None:
            return self._whole
        reply: list[Any] = [*self._items.values(), *(message.built() for message in self._messages.values())]
        if self._blocks:
            reply.append({"role": "assistant", "content": [_block(*block) for block in self._blocks.values()]})
        return answer_of(reply or None, self._model, self._id, self._usage, self._ended)

    def _message(self, index: Any) -> _Message:
        return self._messages.get(index) or self._messages.setdefault(index, _Message())

    def _named(self, response: Any) -> None:
        self._model = field_of(response, "model") or self._model
        self._id = field_of(response, "id") or self._id

    def _chunk(self, piece: Any, choices: Any) -> None:
        if not self._model:
            self._named(piece)
        if (usage := field_of(piece, "usage")) is not None:
            self._usage.add(usage)
        for choice in choices:
            delta = field_of(choice, "delta") or field_of(choice, "message") or field_of(choice, "text")
            if delta is not None:
                self._message(field_of(choice, "index") or 0).add(delta)
            self._ended = field_of(choice, "finish_reason") or self._ended

    def _event(self, piece: Any, kind: Any) -> None:
        if not isinstance(kind, str):
            self._other(piece)
        elif kind.startswith("response."):
            self._of_responses(piece, kind)
        elif kind == "content_block_delta":
            delta = field_of(piece, "delta")
            said = field_of(delta, _BLOCK_DELTAS.get(field_of(delta, "type"), ""))
            if isinstance(said, str) and (block := self._blocks.get(field_of(piece, "index"))):
                block[1].append(said)
        elif kind == "content_block_start":
            self._blocks[field_of(piece, "index")] = (_opened(field_of(piece, "content_block")), [])
        elif kind == "message_start":
            message = field_of(piece, "message")
            self._named(message)
            self._usage.add(field_of(message, "usage"))
        elif kind == "message_delta":
            self._ended = field_of(field_of(piece, "delta"), "stop_reason") or self._ended
            self._usage.add(field_of(piece, "usage"))
        elif kind == "chunk":  # of the streaming helper of OpenAI's client
            self.add(field_of(piece, "chunk"))
        elif "." not in kind and field_of(piece, "snapshot") is None:  # else it says once more what its chunk said
            self._other(piece)

    def _of_responses(self, piece: Any, kind: str) -> None:
        if kind in _ENDS:
            self._whole = read(field_of(piece, "response"))
        elif kind == "response.created":
            self._named(field_of(piece, "response"))
        elif kind == "response.output_item.done":
            index = field_of(piece, "output_index")
            self._items[index] = field_of(piece, "item")
            self._messages.pop(index, None)
        elif kind.endswith(".delta") and isinstance(said := field_of(piece, "delta"), str):
            self._message(field_of(piece, "output_index")).add(said)

    def _other(self, piece: Any) -> None:
        """A piece of a message in no form of its own: its text, and its usage."""
        for name in ("content", "text"):
            if isinstance(said := field_of(piece, name), str):
                self._message(0).add(said)
                break
        self._usage.add(field_of(piece, "usage") or field_of(piece, "usage_metadata"))


def _opened(block: Any) -> dict[str, Any]:
    """A content block of Anthropic as it begins."""
    found = {name: value for name in ("type", "id", "name") if (value := field_of(block, name)) is not None}
    return found or {"type": "text"}


def _block(begun: dict[str, Any], pieces: list[str]) -> dict[str, Any]:
    said = "".join(pieces)
    if begun["type"] in ("text", "thinking"):
        return {**begun, begun["type"]: said}
    try:
        return {**begun, "input": json.loads(said) if said else {}}
    except ValueError:  # it ended early
        return {**begun, "input": said}
