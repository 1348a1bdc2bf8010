"""What is new in the messages of the next call: read alike in the Guard and at ingest, so that their prints agree.

Understood are the forms in which messages travel: OpenTelemetry GenAI (`{role, parts}`), OpenAI Chat and Responses,
Anthropic content blocks, and close relatives. Nothing here raises on what users pass: what is unknown counts as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import Field

from spanfuse.reading.kept import kept_of
from spanfuse.reading.parts import (
    RESULT_TYPES,
    body_of,
    calls_of,
    content_of,
    first_of,
    function_of,
    joined,
    mapping_of,
    name_of,
    parts_of,
    role_of,
)
from spanfuse.reading.scratchpad import read_scratchpad
from spanfuse.reading.texts import echoes, flagged, looks_failed, may_echo, print_of, tool_arguments
from spanfuse_schemas import Action, Drift, Fingerprint, Message
from spanfuse_schemas.fingerprint import action_print, exact_hash, input_print
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
    system: str = Field(default="", max_length=16, pattern=r"^[0-9a-f]*$")
    """As `Call.system`."""
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
    failed: bool = False
    """For a tool execution: its result reads as an error."""
    echoes: bool = False
    """For a tool execution: as `Call.echoes`."""
    drift: Drift | None = None
    """As `Call.drift`."""
    key: str = Field(default="", max_length=8, pattern=r"^[0-9a-f]*$")
    """Which key words and fields are hashed with (`spanfuse_schemas.wording.key_id`); empty: one of the process's own."""


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

    system: str = ""
    """Hash of the system messages where there is no history: with it, what is asked of the model. 16 hex digits."""

    @property
    def spoken(self) -> bool:
        """Whether somebody speaks beside the results of tools."""
        return is_spoken(self.messages)

    @property
    def answers(self) -> Fingerprint | None:
        """Fingerprint of the action that the new messages answer; `None` where there is none."""
        return action_print(self.prior)


def is_spoken(messages: Sequence[Message]) -> bool:
    """Whether there is a message of somebody among results of tools."""
    return len(messages) > 1 and len({m.role == "tool" for m in messages}) > 1


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
    prior = _prior(items[begin:end])
    tools = {a.call_id: a.tool for a in prior if a.call_id}
    if len(prior) == 1:
        tools.setdefault("", prior[0].tool)
    fresh = [item for item in items[end:] if role_of(item) != "system"] or items[end:]
    new = [m for item in fresh for m in _new_messages(mapping_of(item), tools)]
    if len(new) == 1:
        unrolled = _unrolled(fresh[0]) if not end and new[0].role == "user" else None
        if unrolled:
            return unrolled
        told = _told_of(items, begin, end, fresh[0], new[0].role, prior)
        new = [new[0].model_copy(update={told: True})] if told else new
    return Conversation(end, tuple(new), prior, "" if end else _system(items))


def _told_of(
    items: Sequence[Any], begin: int, end: int, fresh: Any, role: str, prior: tuple[Action, ...]
) -> Literal["", "restates", "error", "echoes"]:
    """What else there is to say of the only message that is new."""
    if end and role == "user" and _restates(items, fresh):
        return "restates"
    if not prior or (role != "user" and not (len(prior) == 1 and prior[0].tool)):
        return ""
    said = _said(fresh)
    if role == "user" and looks_failed(said):
        return "error"
    if len(prior) == 1 and prior[0].tool and may_echo(said):
        _, given = _named(next(call for item in items[begin:end] for call in calls_of(mapping_of(item))))
        return "echoes" if echoes(said, given, _said(items[begin - 1]) if begin else "") else ""
    return ""


def _system(items: Sequence[Any]) -> str:
    """What the system messages say, which may be the very thing that is asked about."""
    said = [print_of(_said(item)).canon for item in items if role_of(item) == "system"]
    return exact_hash(" ".join(said)) if said else ""


def _unrolled(fresh: Any) -> Conversation | None:
    """A prompt that ends with the last step of a scratchpad, as the messages it stands for."""
    text = _said(fresh)
    pad = read_scratchpad(text) if isinstance(text, str) else None
    if pad is None:
        return None
    asked = {"role": "assistant", "tool_calls": [{"name": pad.tool, "arguments": pad.arguments}]}
    prior = _prior((asked,))
    result = _result({"name": pad.tool, "content": pad.observation}, {})
    return Conversation(2 * pad.steps, (result,), prior)


def _prior(messages: Sequence[Any]) -> tuple[Action, ...]:
    """What assistant messages did; a single tool call with its fields, by which it is compared with those before it."""
    calls = [call for item in messages for call in calls_of(mapping_of(item))]
    return (_action(calls[0], alone=True),) if len(calls) == 1 else read_actions(messages)


def _restates(items: Sequence[Any], fresh: Any) -> bool:
    """Whether a message begins as the first user message of the conversation does, for longer than by chance."""
    first = next((item for item in items if role_of(item) == "user"), None)
    task, text = _opening(first), _opening(fresh)
    return first is not fresh and len(task) == RESTATED_CHARS and task == text


def _said(item: Any) -> Any:
    """What a message says: the one result in it, else its content."""
    body = body_of(mapping_of(item))
    if isinstance(body, str):
        return body
    parts = parts_of(body)
    results = [part for part in parts if part["type"] in RESULT_TYPES]
    if results:
        return _value_of(results[0]) if len(results) == 1 else ""
    return joined(parts)


def _opening(item: Any) -> str:
    content = content_of(body_of(mapping_of(item)))
    return content.lstrip()[:RESTATED_CHARS] if isinstance(content, str) else ""


def read_actions(messages: Iterable[Any]) -> tuple[Action, ...]:
    """What assistant messages in a row, one turn of the model, did: their tool calls, else the text of the last, which may be
    empty."""
    items = [mapping_of(m) for m in messages]
    calls = tuple(_action(call) for item in items for call in calls_of(item))
    if calls:
        return calls
    for item in reversed(items):
        content = content_of(body_of(item), thoughts=False)
        if content and not (isinstance(content, str) and content.isspace()):
            return (Action.made(print=print_of(content)),)
    return (Action.made(print=print_of("")),) if items else ()


def new_input(messages: Iterable[Any] | None = None, prompt: Any = None) -> Fingerprint | None:
    """Fingerprint of what is new in the next call, as ingest will compute it from the call's span.

    Args:
        messages: the call's messages; wins over `prompt`.
        prompt: the call's only text.
    """
    if messages is not None:
        return read_messages(messages).input
    if isinstance(prompt, str):
        return read_messages([{"role": "user", "content": prompt}]).input
    return None if prompt is None else input_print([Message(role="user", print=print_of(prompt))])


def named_call(call: Mapping[str, Any]) -> tuple[str, Any]:
    """Name and arguments of a tool call, these parsed where they are JSON text."""
    tool, given = _named(call)
    return tool, tool_arguments(given)


def _named(call: Mapping[str, Any]) -> tuple[str, Any]:
    """Name and arguments of a tool call, as they stand there."""
    named = function_of(call)
    return name_of(named, _NAME_KEYS) or "?", first_of(named, _ARGUMENT_KEYS)


def _action(call: Mapping[str, Any], *, alone: bool = False) -> Action:
    """A tool call; one that stands alone with its fields and meaning."""
    tool, given = _named(call)
    kept = kept_of(tool, given)
    more = {"fields": kept.fields, "meaning": kept.meaning} if alone else {}
    return Action.made(tool=tool, print=kept.print, wording=kept.wording, call_id=name_of(call, _CALL_ID_KEYS), **more)


def _new_messages(item: Mapping[str, Any], tools: Mapping[str, str]) -> list[Message]:
    role = role_of(item)
    body = body_of(item)
    parts = [] if isinstance(body, str) else parts_of(body)
    results = [part for part in parts if part["type"] in RESULT_TYPES]
    if role == "tool" and not results:
        return [_result(item, tools)]
    found = [_result(part, tools) for part in results]
    content = body if isinstance(body, str) else joined(parts)
    if not results or content:
        found.append(Message.made(role=role, print=print_of("" if body is None else content)))
    return found


def _value_of(part: Mapping[str, Any]) -> Any:
    value = first_of(part, ("parts", *_RESULT_KEYS))
    if isinstance(value, (list, tuple)) and any(isinstance(v, Mapping) and "type" in v for v in value):
        value = content_of(value)
    return tool_arguments("" if value is None else value)


def _result(part: Mapping[str, Any], tools: Mapping[str, str]) -> Message:
    """The answer of a tool: a content part, or a whole message of role `tool`."""
    value = _value_of(part)
    call_id = name_of(part, _CALL_ID_KEYS)
    return Message.made(
        role="tool",
        print=print_of(value),
        tool=name_of(part, _NAME_KEYS) or tools.get(call_id, ""),
        call_id=call_id,
        error=flagged(part) or looks_failed(value),
    )
