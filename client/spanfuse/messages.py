"""What is new in the messages of the next call: read alike in the Guard and at ingest, so that their prints agree.

Understood are the forms in which messages travel: OpenTelemetry GenAI (`{role, parts}`), OpenAI Chat and Responses,
Anthropic content blocks, and close relatives. Nothing here raises on what users pass: what is unknown counts as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import Field

from spanfuse.parts import (
    CALL_TYPES,
    RESULT_TYPES,
    body_of,
    content_of,
    first_of,
    mapping_of,
    name_of,
    parts_of,
    role_of,
)
from spanfuse.texts import flagged, looks_failed, print_of, tool_arguments
from spanfuse_schemas import Action, Drift, Fingerprint, Message
from spanfuse_schemas.fingerprint import action_print, input_print
from spanfuse_schemas.record import Record

FINGERPRINT_ATTRIBUTE: Final = "spanfuse.fingerprint"
"""Span attribute with the JSON of `Prints`: where it is set, ingest needs no content and looks at none."""

MAX_ITEMS: Final = 256
"""New messages, and actions, that the prints of one call hold at most."""

RESTATED_CHARS: Final = 200
"""Two messages that begin with the same text of this length, characters, have been made from one template."""

_CALL_ID_KEYS: Final = ("call_id", "tool_call_id", "tool_use_id", "toolCallId", "id")
_NAME_KEYS: Final = ("name", "toolName", "tool_name")
_ARGUMENT_KEYS: Final = ("arguments", "input", "args", "server_tool_call")
_RESULT_KEYS: Final = ("response", "result", "content", "output", "server_tool_call_response")


class Prints(Record):
    """All fingerprints of one call, as they travel on its span in the attribute `spanfuse.fingerprint`.

    What exceeds its bounds is invalid as a whole: ingest counts it and looks at the content instead.
    """

    history: int = Field(default=0, ge=0, lt=2**31)
    """As `Call.history`."""
    input: Fingerprint | None = None
    """As `Call.input`; computed from `messages` where it is left out."""
    messages: tuple[Message, ...] = Field(default=(), max_length=MAX_ITEMS)
    """The messages that are new."""
    prior: tuple[Action, ...] = Field(default=(), max_length=MAX_ITEMS)
    """What the last assistant message before them did."""
    actions: tuple[Action, ...] = Field(default=(), max_length=MAX_ITEMS)
    """What this call did: its tool calls, else its text; for a tool execution, the execution."""
    output: Fingerprint | None = None
    """As `Call.output`."""
    drift: Drift | None = None
    """As `Call.drift`."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the next call is about."""

    history: int = 0
    """Number of messages up to and including the last assistant message, system messages included; 0: none."""
    messages: tuple[Message, ...] = ()
    """The messages after it, without system messages unless there is nothing else. One per tool result."""
    prior: tuple[Action, ...] = ()
    """What the last assistant message did: its tool calls, else its text."""

    @property
    def input(self) -> Fingerprint | None:
        """Fingerprint of the new messages together; `None` where there are none."""
        return input_print(self.messages)

    @property
    def answers(self) -> Fingerprint | None:
        """Fingerprint of the action that the new messages answer; `None` where there is none."""
        return action_print(self.prior)


def read_messages(messages: Iterable[Any]) -> Conversation:
    """Split the input of a call into its history, what is new, and the action that this answers.

    Args:
        messages: message dicts, or objects with `model_dump()`, oldest first.
    """
    items = messages if isinstance(messages, Sequence) and not isinstance(messages, str) else list(messages)
    end = len(items)
    while end and role_of(items[end - 1]) != "assistant":
        end -= 1
    begin = end
    while begin and role_of(items[begin - 1]) == "assistant":
        begin -= 1
    prior = read_actions(items[begin:end])
    tools = {a.call_id: a.tool for a in prior if a.call_id}
    if len(prior) == 1:
        tools.setdefault("", prior[0].tool)
    fresh = [item for item in items[end:] if role_of(item) != "system"] or items[end:]
    new = [m for item in fresh for m in _new_messages(mapping_of(item), tools)]
    if end and len(new) == 1 and new[0].role == "user" and _restates(items, fresh[0]):
        new = [new[0].model_copy(update={"restates": True})]
    return Conversation(end, tuple(new), prior)


def _restates(items: Sequence[Any], fresh: Any) -> bool:
    """Whether a message begins as the first user message of the conversation does, for longer than by chance."""
    first = next((item for item in items if role_of(item) == "user"), None)
    task, text = _opening(first), _opening(fresh)
    return first is not fresh and len(task) == RESTATED_CHARS and task == text


def _opening(item: Any) -> str:
    content = content_of(body_of(mapping_of(item)))
    return content.lstrip()[:RESTATED_CHARS] if isinstance(content, str) else ""


def read_actions(messages: Iterable[Any]) -> tuple[Action, ...]:
    """What assistant messages in a row, one turn of the model, did: their tool calls, else the text of the last."""
    items = [mapping_of(m) for m in messages]
    calls = tuple(action for item in items for action in _tool_calls(item))
    if calls:
        return calls
    for item in reversed(items):
        content = content_of(body_of(item), thoughts=False)
        if content and not (isinstance(content, str) and content.isspace()):
            return (Action(print=print_of(content)),)
    return ()


def new_input(messages: Iterable[Any] | None = None, prompt: Any = None) -> Fingerprint | None:
    """Fingerprint of what is new in the next call, as ingest will compute it from the call's span.

    Args:
        messages: the call's messages; wins over `prompt`.
        prompt: the call's only text.
    """
    if messages is not None:
        return read_messages(messages).input
    return None if prompt is None else input_print([Message(role="user", print=print_of(prompt))])


def _tool_calls(item: Mapping[str, Any]) -> list[Action]:
    calls = [part for part in parts_of(body_of(item)) if part["type"] in CALL_TYPES]
    extra = item.get("tool_calls")
    if isinstance(extra, (list, tuple)):
        calls += [mapping_of(call) for call in extra if call is not None]
    elif not calls and isinstance(item.get("function_call"), Mapping):
        calls.append(item["function_call"])
    return [_action(call) for call in calls]


def _action(call: Mapping[str, Any]) -> Action:
    function = call.get("function")
    named = function if isinstance(function, Mapping) else call
    arguments = tool_arguments(first_of(named, _ARGUMENT_KEYS))
    return Action(
        tool=name_of(named, _NAME_KEYS) or "?",
        print=print_of({} if arguments is None or arguments == "" else arguments),
        call_id=name_of(call, _CALL_ID_KEYS),
    )


def _new_messages(item: Mapping[str, Any], tools: Mapping[str, str]) -> list[Message]:
    role = role_of(item)
    body = body_of(item)
    parts = [] if isinstance(body, str) else parts_of(body)
    results = [part for part in parts if part["type"] in RESULT_TYPES]
    if role == "tool" and not results:
        return [_result(item, tools)]
    found = [_result(part, tools) for part in results]
    content = content_of(body)
    if not results or content:
        found.append(Message(role=role, print=print_of("" if body is None else content)))
    return found


def _result(part: Mapping[str, Any], tools: Mapping[str, str]) -> Message:
    """The answer of a tool: a content part, or a whole message of role `tool`."""
    value = first_of(part, ("parts", *_RESULT_KEYS))
    if isinstance(value, (list, tuple)) and any(isinstance(v, Mapping) and "type" in v for v in value):
        value = content_of(value)
    value = tool_arguments("" if value is None else value)
    call_id = name_of(part, _CALL_ID_KEYS)
    return Message(
        role="tool",
        print=print_of(value),
        tool=name_of(part, _NAME_KEYS) or tools.get(call_id, ""),
        call_id=call_id,
        error=flagged(part) or looks_failed(value),
    )
