"""The forms of a message: its role, and its content as parts, whoever wrote it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeGuard

from spanfuse_schemas.fingerprint import exact_hash
from spanfuse_schemas.names import normal_name

_ROLES: Final = {"model": "assistant", "ai": "assistant", "human": "user", "developer": "system", "function": "tool"}
_KNOWN_ROLES: Final = frozenset({"system", "user", "assistant", "tool"})
_ITEM_ROLES: Final = {"function_call": "assistant", "reasoning": "assistant", "function_call_output": "tool"}
"""OpenAI Responses: items of the conversation that have a type in place of a role."""

_TEXT_KEYS: Final = ("content", "text", "refusal")
_TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text", "refusal"})
_THOUGHT_TYPES: Final = frozenset({"reasoning", "thinking", "redacted_thinking", "compaction"})
CALL_TYPES: Final = frozenset(
    {"tool_call", "tool-call", "tool_use", "function_call", "server_tool_call", "server_tool_use"}
)
RESULT_TYPES: Final = frozenset(
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

_MEDIA_KEYS: Final = (
    "uri", "url", "file_id", "image_url", "image", "source", "input_audio", "file", "data", "file_data", "content",
)  # fmt: skip

_MEDIA_DEPTH: Final = 4
"""Levels at which the name of a medium is looked for."""
_ID_CHARS: Final = 256
"""Media named by something longer than this (inline data) is named by its hash."""


def is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """As `isinstance` says, which takes longer for a dict, as nearly all of them are."""
    return type(value) is dict or isinstance(value, Mapping)


def mapping_of(item: Any) -> Mapping[str, Any]:
    """A message or part as a mapping; what is none and cannot be dumped as one counts as a text of the user."""
    if is_mapping(item):
        return item
    dump = getattr(item, "model_dump", None)
    if callable(dump):
        dumped = dump()
        if isinstance(dumped, Mapping):
            return dumped
    return {"role": "user", "content": item if isinstance(item, str) else str(item)}


def role_of(item: Any) -> str:
    """`system`, `user`, `assistant` or `tool`, under whatever name."""
    if type(item) is dict and type(role := item.get("role")) is str and role in _KNOWN_ROLES:
        return role  # nearly always, and every message of a history is asked
    keyed = type(item) is dict or isinstance(item, Mapping)
    found = item.get("role") if keyed else getattr(item, "role", None)
    if not isinstance(found, str):
        kind = item.get("type") if keyed else getattr(item, "type", None)
        return _ITEM_ROLES.get(kind, "user") if isinstance(kind, str) else "user"
    role = found.lower()
    return _ROLES.get(role) or (role if role in _KNOWN_ROLES else "user")


def body_of(item: Mapping[str, Any]) -> Any:
    """Where a message keeps its content; a Responses item is its own content."""
    for key in ("parts", "content"):
        if item.get(key) is not None:
            return item[key]
    return [item] if "role" not in item else None


def parts_of(body: Any) -> list[Mapping[str, Any]]:
    """The content of a message as parts that have a type."""
    if isinstance(body, str):
        return [{"type": "text", "text": body}] if body else []
    items = body if isinstance(body, (list, tuple)) else [body] if is_mapping(body) else ()
    # Nearly every part is a dict with a type, and each is looked at.
    return [
        part if type(part) is dict and type(part.get("type")) is str else _typed(part)
        for part in items
        if part is not None
    ]


def _typed(part: Any) -> Mapping[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    found = mapping_of(part)
    if isinstance(found.get("type"), str):
        return found
    return {**found, "type": "text" if "text" in found else "unknown"}


def calls_of(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The tool calls of an assistant message, in whatever place its dialect has them."""
    body = body_of(item)
    calls = [] if body is None or isinstance(body, str) else [p for p in parts_of(body) if p["type"] in CALL_TYPES]
    extra = item.get("tool_calls")
    if isinstance(extra, (list, tuple)):
        calls += [mapping_of(call) for call in extra if call is not None]
    elif not calls and is_mapping(item.get("function_call")):
        calls.append(item["function_call"])
    return calls


def function_of(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a tool call that has its name and arguments."""
    function = call.get("function")
    return function if is_mapping(function) else call


def first_of(part: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """The first value under `keys`; `None` where there is none."""
    for key in keys:
        found = part.get(key)
        if found is not None:
            return found
    return None


def _text_field(part: Mapping[str, Any], keys: Iterable[str]) -> str:
    found = first_of(part, keys)
    return found if isinstance(found, str) else "" if found is None else str(found)


def name_of(part: Mapping[str, Any], keys: Iterable[str]) -> str:
    """A name or id in its one form (`spanfuse_schemas.names`)."""
    return normal_name(_text_field(part, keys))


def content_of(body: Any, *, thoughts: bool = True) -> Any:
    """The content of a message: its text, or a list where something in it is no text."""
    return body if isinstance(body, str) else joined(parts_of(body), thoughts=thoughts)


def joined(parts: Iterable[Mapping[str, Any]], *, thoughts: bool = True) -> Any:
    """The same of the parts of a message."""
    found: list[Any] = []
    for part in parts:
        kind = part["type"]
        if kind in _TEXT_TYPES:
            found.append(_text_field(part, _TEXT_KEYS))
        elif kind not in CALL_TYPES and kind not in RESULT_TYPES and (thoughts or kind not in _THOUGHT_TYPES):
            found.append(_identity(part))
    if len(found) == 1 and isinstance(found[0], str):
        return found[0]
    return "\n".join(found) if all(isinstance(f, str) for f in found) else found


def _identity(part: Mapping[str, Any]) -> Any:
    """What tells one picture, file or unknown part from another. `file` is a key whose value is never masked."""
    named: Any = part if part["type"] in _MEDIA_TYPES else None
    for _ in range(_MEDIA_DEPTH):
        if isinstance(named, Mapping):
            named = first_of(named, _MEDIA_KEYS)
    if not isinstance(named, str):
        named = _whole(part)
    if named.startswith("data:"):
        named = named.partition(",")[2]
    return {"file": named if len(named) <= _ID_CHARS else exact_hash(named)}


def _whole(part: Mapping[str, Any]) -> str:
    try:
        return json.dumps(part, ensure_ascii=False, sort_keys=True, default=str)
    except (ValueError, TypeError, RecursionError):
        return str(part["type"])
