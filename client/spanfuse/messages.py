"""What is new in the messages of the next call: read alike in the Guard and at ingest, so that their prints agree.

Understood are the forms in which messages travel: OpenTelemetry GenAI (`{role, parts}`), OpenAI Chat and Responses,
Anthropic content blocks, and close relatives. Nothing here raises on what users pass: what is unknown counts as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spanfuse_schemas import Action, Fingerprint, Message
from spanfuse_schemas.fingerprint import action_print, exact_hash, fingerprint, input_print
from spanfuse_schemas.record import Record

FINGERPRINT_ATTRIBUTE: Final = "spanfuse.fingerprint"
"""Span attribute with the JSON of `Prints`: where it is set, ingest needs no content and looks at none."""

_ROLES: Final = {"model": "assistant", "ai": "assistant", "human": "user", "developer": "system", "function": "tool"}
_KNOWN_ROLES: Final = frozenset({"system", "user", "assistant", "tool"})
_ITEM_ROLES: Final = {"function_call": "assistant", "reasoning": "assistant", "function_call_output": "tool"}
"""OpenAI Responses: items of the conversation that have a type in place of a role."""

_TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text", "refusal"})
_THOUGHT_TYPES: Final = frozenset({"reasoning", "thinking", "redacted_thinking", "compaction"})
_CALL_TYPES: Final = frozenset(
    {"tool_call", "tool-call", "tool_use", "function_call", "server_tool_call", "server_tool_use"}
)
_RESULT_TYPES: Final = frozenset(
    {"tool_call_response", "tool-result", "tool_result", "function_call_output", "server_tool_call_response"}
)
_MEDIA_TYPES: Final = frozenset(
    {
        "blob",
        "uri",
        "file",
        "image",
        "image_url",
        "input_image",
        "document",
        "audio",
        "input_audio",
        "input_file",
        "video",
        "media",
    }
)

_CALL_ID_KEYS: Final = ("call_id", "tool_call_id", "tool_use_id", "toolCallId", "id")
_NAME_KEYS: Final = ("name", "toolName", "tool_name")
_ARGUMENT_KEYS: Final = ("arguments", "input", "args", "server_tool_call")
_RESULT_KEYS: Final = ("response", "result", "content", "output", "server_tool_call_response")
_MEDIA_KEYS: Final = (
    "uri", "url", "file_id", "image_url", "image", "source", "input_audio", "file", "data", "file_data", "content",
)  # fmt: skip

_ERROR_TEXT: Final = re.compile(
    r"""\s*["'\[<(*]*\s*(?:
        traceback\b
      | (?:[\w.]*(?:error|exception)|fatal|failure)\s*(?:[:\])>\n(]|$)
      | error\s+(?:(?:execut|call|invok|runn|process|pars|read|writ|fetch|open|load|creat|access|connect|gett|search|
               validat|delet|edit|updat|apply|decod)ing|occurred|while|in|during|at|from|code|\d+)\b
      | tool_use_error
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_CUT_MARK: Final = re.compile(
    r"""(?:
        [\[<({]\W*(?:[\w-]+\s){0,3}?(?:truncated|clipped|(?:chars|characters|bytes|tokens)\ omitted)\b
        [^\])>}]{0,120}[\])>}]
      | (?:\.{3}|…)\s*(?:truncated|clipped)
    )\W*\Z""",
    re.VERBOSE | re.IGNORECASE,
)
_DIGEST: Final = re.compile(r"\b(?:sha-?(?:1|256|512)|md5|blake2b?|crc32)\W{0,3}[0-9a-f]{8,}", re.IGNORECASE)
_MARK_CHARS: Final = 200
"""A truncation mark is looked for in this many characters at the end of a text."""
RESTATED_CHARS: Final = 200
"""Two messages that begin with the same text of this length, characters, have been made from one template."""
_NAME_CHARS: Final = 256
"""Names and ids are cut at this length, characters."""
_ID_CHARS: Final = 256
"""Media named by something longer than this (inline data) is named by its hash."""


_MEMO: Final[dict[str, Fingerprint]] = {}
_MEMO_SIZE: Final = 4096
"""Fingerprints remembered, by exact hash."""
_MEMO_MIN_CHARS: Final = 256
"""Shorter texts are hashed as fast as looked up."""


class Prints(Record):
    """All fingerprints of one call, as they travel on its span in the attribute `spanfuse.fingerprint`."""

    history: int = 0
    """As `Call.history`."""
    input: Fingerprint | None = None
    """As `Call.input`; computed from `messages` where it is left out."""
    messages: tuple[Message, ...] = ()
    """As `Call.messages`."""
    prior: tuple[Action, ...] = ()
    """As `Call.prior`."""
    actions: tuple[Action, ...] = ()
    """As `Call.actions`."""
    output: Fingerprint | None = None
    """As `Call.output`."""


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
    while end and _role(items[end - 1]) != "assistant":
        end -= 1
    begin = end
    while begin and _role(items[begin - 1]) == "assistant":
        begin -= 1
    prior = read_actions(items[begin:end])
    tools = {a.call_id: a.tool for a in prior if a.call_id}
    if len(prior) == 1:
        tools.setdefault("", prior[0].tool)
    fresh = [item for item in items[end:] if _role(item) != "system"] or items[end:]
    new = [m for item in fresh for m in _new_messages(_mapping(item), tools)]
    if end and len(new) == 1 and new[0].role == "user" and _restates(items, fresh[0]):
        new = [new[0].model_copy(update={"restates": True})]
    return Conversation(end, tuple(new), prior)


def _restates(items: Sequence[Any], fresh: Any) -> bool:
    """Whether a message begins as the first user message of the conversation does, for longer than by chance."""
    first = next((item for item in items if _role(item) == "user"), None)
    task, text = _opening(first), _opening(fresh)
    return first is not fresh and len(task) == RESTATED_CHARS and task == text


def _opening(item: Any) -> str:
    content = _content(_body(_mapping(item)))
    return content.lstrip()[:RESTATED_CHARS] if isinstance(content, str) else ""


def read_actions(messages: Iterable[Any]) -> tuple[Action, ...]:
    """What assistant messages in a row, one turn of the model, did: their tool calls, else the text of the last."""
    items = [_mapping(m) for m in messages]
    calls = tuple(action for item in items for action in _tool_calls(item))
    if calls:
        return calls
    for item in reversed(items):
        content = _content(_body(item), thoughts=False)
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


def tool_arguments(value: Any) -> Any:
    """The one form of a tool's arguments or result: JSON text of an object or array is the same as what it says."""
    if not isinstance(value, str):
        return value
    bare = value.strip()
    if not bare or (bare[0], bare[-1]) not in (("{", "}"), ("[", "]")):
        return value
    try:
        return json.loads(bare)
    except (ValueError, RecursionError):
        return value


def is_truncated(text: str) -> bool:
    """Whether a text ends in a mark that it was cut, and carries no digest of the whole."""
    tail = text[-_MARK_CHARS:]
    return bool(_CUT_MARK.search(tail)) and not _DIGEST.search(tail)


def looks_failed(result: Any) -> bool:
    """Whether the result of a tool, text or parsed JSON, clearly begins as an error."""
    if isinstance(result, str):
        return bool(_ERROR_TEXT.match(result[:400]))
    if isinstance(result, Mapping):
        return bool(result.get("error")) or _flagged(result)
    return False


def print_of(value: Any) -> Fingerprint:
    """Fingerprint of a text or JSON-like value; without identity where it is truncated or cannot be serialised.

    Long ones are remembered by their exact hash: what a call did comes back as what the next one answers.
    """
    try:
        raw = (
            value
            if isinstance(value, str)
            else json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
        )
        if is_truncated(raw) and isinstance(value, str):
            return Fingerprint(size=len(raw))
        return fingerprint(value) if len(raw) < _MEMO_MIN_CHARS else _remembered(value, exact_hash(raw))
    except (ValueError, RecursionError, TypeError):
        return Fingerprint()


def _remembered(value: Any, exact: str) -> Fingerprint:
    found = _MEMO.get(exact)
    if found is None:
        found = fingerprint(value)
        if len(_MEMO) >= _MEMO_SIZE:
            _MEMO.clear()  # one atomic step: other threads may be reading
        _MEMO[exact] = found
    return found


def _mapping(item: Any) -> Mapping[str, Any]:
    if isinstance(item, Mapping):
        return item
    dump = getattr(item, "model_dump", None)
    if callable(dump):
        dumped = dump()
        if isinstance(dumped, Mapping):
            return dumped
    return {"role": "user", "content": item if isinstance(item, str) else str(item)}


def _role(item: Any) -> str:
    found = item.get("role") if isinstance(item, Mapping) else getattr(item, "role", None)
    if not isinstance(found, str):
        kind = item.get("type") if isinstance(item, Mapping) else getattr(item, "type", None)
        return _ITEM_ROLES.get(kind, "user") if isinstance(kind, str) else "user"
    role = found.lower()
    return _ROLES.get(role) or (role if role in _KNOWN_ROLES else "user")


def _body(item: Mapping[str, Any]) -> Any:
    """Where a message keeps its content; a Responses item is its own content."""
    for key in ("parts", "content"):
        if item.get(key) is not None:
            return item[key]
    return [item] if "role" not in item else None


def _parts(body: Any) -> list[Mapping[str, Any]]:
    """The content of a message as parts that have a type."""
    if isinstance(body, str):
        return [{"type": "text", "text": body}] if body else []
    items = [body] if isinstance(body, Mapping) else body if isinstance(body, (list, tuple)) else []
    return [_typed(part) for part in items if part is not None]


def _typed(part: Any) -> Mapping[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    found = _mapping(part)
    if isinstance(found.get("type"), str):
        return found
    return {**found, "type": "text" if "text" in found else "unknown"}


def _first(part: Mapping[str, Any], keys: Iterable[str]) -> Any:
    return next((part[key] for key in keys if part.get(key) is not None), None)


def _text_field(part: Mapping[str, Any], keys: Iterable[str]) -> str:
    found = _first(part, keys)
    return found if isinstance(found, str) else "" if found is None else str(found)


def _name_field(part: Mapping[str, Any], keys: Iterable[str]) -> str:
    """A name or id, bounded, without what UTF-8 cannot hold."""
    found = _text_field(part, keys)[:_NAME_CHARS]
    return found if found.isascii() else found.encode("utf-8", "replace").decode()


def _content(body: Any, *, thoughts: bool = True) -> Any:
    """The content of a message: its text, or a list where something in it is no text."""
    if isinstance(body, str):
        return body
    found: list[Any] = []
    for part in _parts(body):
        kind = part["type"]
        if kind in _TEXT_TYPES:
            found.append(_text_field(part, ("content", "text", "refusal")))
        elif kind not in _CALL_TYPES and kind not in _RESULT_TYPES and (thoughts or kind not in _THOUGHT_TYPES):
            found.append(_identity(part))
    return "\n".join(found) if all(isinstance(f, str) for f in found) else found


def _identity(part: Mapping[str, Any]) -> Any:
    """What tells one picture, file or unknown part from another. `file` is a key whose value is never masked."""
    named: Any = part if part["type"] in _MEDIA_TYPES else None
    while isinstance(named, Mapping):
        named = _first(named, _MEDIA_KEYS)
    if not isinstance(named, str):
        named = json.dumps(part, ensure_ascii=False, sort_keys=True, default=str)
    if named.startswith("data:"):
        named = named.partition(",")[2]
    return {"file": named if len(named) <= _ID_CHARS else exact_hash(named)}


def _tool_calls(item: Mapping[str, Any]) -> list[Action]:
    calls = [part for part in _parts(_body(item)) if part["type"] in _CALL_TYPES]
    extra = item.get("tool_calls")
    if isinstance(extra, (list, tuple)):
        calls += [_mapping(call) for call in extra if call is not None]
    elif not calls and isinstance(item.get("function_call"), Mapping):
        calls.append(item["function_call"])
    return [_action(call) for call in calls]


def _action(call: Mapping[str, Any]) -> Action:
    function = call.get("function")
    named = function if isinstance(function, Mapping) else call
    arguments = tool_arguments(_first(named, _ARGUMENT_KEYS))
    return Action(
        tool=_name_field(named, _NAME_KEYS) or "?",
        print=print_of({} if arguments is None or arguments == "" else arguments),
        call_id=_name_field(call, _CALL_ID_KEYS),
    )


def _new_messages(item: Mapping[str, Any], tools: Mapping[str, str]) -> list[Message]:
    role = _role(item)
    body = _body(item)
    parts = [] if isinstance(body, str) else _parts(body)
    results = [part for part in parts if part["type"] in _RESULT_TYPES]
    if role == "tool" and not results:
        return [_result(item, tools)]
    found = [_result(part, tools) for part in results]
    content = _content(body)
    if not results or content:
        found.append(Message(role=role, print=print_of("" if body is None else content)))
    return found


def _result(part: Mapping[str, Any], tools: Mapping[str, str]) -> Message:
    """The answer of a tool: a content part, or a whole message of role `tool`."""
    value = _first(part, ("parts", *_RESULT_KEYS))
    if isinstance(value, (list, tuple)) and any(isinstance(v, Mapping) and "type" in v for v in value):
        value = _content(value)
    value = tool_arguments("" if value is None else value)
    call_id = _name_field(part, _CALL_ID_KEYS)
    return Message(
        role="tool",
        print=print_of(value),
        tool=_name_field(part, _NAME_KEYS) or tools.get(call_id, ""),
        call_id=call_id,
        error=_flagged(part) or looks_failed(value),
    )


def _flagged(result: Mapping[str, Any]) -> bool:
    return result.get("is_error") is True or result.get("isError") is True or result.get("status") == "error"
