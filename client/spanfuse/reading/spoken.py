"""Who said what in the messages of a call: the arguments that the model chose, what tools brought, what people said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from spanfuse.reading.parts import (
    CALL_TYPES,
    RESULT_TYPES,
    body_of,
    calls_of,
    content_of,
    function_of,
    mapping_of,
    role_of,
)
from spanfuse.reading.texts import tool_arguments

MAX_RESULTS: Final = 8
"""Tool results looked at, from the newest."""
MAX_MESSAGES: Final = 32
"""Messages among which they are looked for, the newest."""
MAX_ARGUMENT_CHARS: Final = 256
"""Longer arguments are content (a mail that quotes a page, a file), not what the call acts on."""
MAX_ARGUMENTS: Final = 256
"""Arguments looked at."""
MAX_DEPTH: Final = 12
"""Levels of a value that are looked into."""

_NAMES: Final = frozenset(
    {
        "type",
        "role",
        "id",
        "call_id",
        "tool_call_id",
        "tool_use_id",
        "toolCallId",
        "name",
        "tool_name",
        "toolName",
        "status",
    }
)
"""Keys of a part whose values say what it is, not what is in it."""
_PLAIN_KEYS: Final = ("content", "response", "text")


def arguments_of(reply: Iterable[Any]) -> list[str]:
    """The short arguments of the tool calls."""
    found: list[str] = []
    for call in (call for item in reply for call in calls_of(mapping_of(item))):
        found += (text for text in _leaves(function_of(call)) if len(text) <= MAX_ARGUMENT_CHARS)
    return found[:MAX_ARGUMENTS]


def results_of(messages: Sequence[Any]) -> list[str]:
    """The newest tool results, as text."""
    found: list[str] = []
    for i in range(len(messages) - 1, max(-1, len(messages) - 1 - MAX_MESSAGES), -1):
        role = role_of(messages[i])
        if role != "assistant" and role != "system":
            found += map(_plain, _result_parts(messages, i, role))
            if len(found) >= MAX_RESULTS:
                break
    return found[:MAX_RESULTS]


def _plain(part: Mapping[str, Any]) -> str:
    """The text of a result, as it stands."""
    for key in _PLAIN_KEYS:
        found = part.get(key)
        if type(found) is str:
            return found
    return "\n".join(_leaves(part, parse=False))


def _result_parts(messages: Sequence[Any], i: int, role: str) -> list[Any]:
    item = mapping_of(messages[i])
    body = item.get("parts") or item.get("content")
    whole = role == "tool" or observes(messages, i)
    if type(body) is list:
        parts = [part for part in body if type(part) is dict and (whole or part.get("type") in RESULT_TYPES)]
        if parts:
            return parts
    return [item] if whole else []


def observes(messages: Sequence[Any], i: int) -> bool:
    """Whether a message answers tool calls: then it is what they brought, whatever role its framework gives it."""
    return i > 0 and role_of(messages[i - 1]) == "assistant" and _acts(mapping_of(messages[i - 1]))


def _acts(item: Mapping[str, Any]) -> bool:
    """Whether an assistant message calls tools."""
    body = item.get("parts") or item.get("content")
    if type(body) is list and any(type(part) is dict and part.get("type") in CALL_TYPES for part in body):
        return True
    return bool(item.get("tool_calls") or item.get("function_call") or item.get("type") in CALL_TYPES)


def _leaves(value: Any, depth: int = 0, *, parse: bool = True) -> Iterator[str]:
    """The texts of a value, those of JSON within it too if told to `parse`, but for names and ids of the part itself."""
    if isinstance(value, str):
        parsed = tool_arguments(value) if parse and value.startswith(("{", "[")) else value
        if isinstance(parsed, str):
            yield parsed
        elif depth < MAX_DEPTH:
            yield from _leaves(parsed, depth + 1)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if depth < MAX_DEPTH and (depth or key not in _NAMES):
                yield from _leaves(inner, depth + 1, parse=parse)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            if depth < MAX_DEPTH:
                yield from _leaves(inner, depth + 1, parse=parse)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)


def said_in(messages: Sequence[Any], system: Any) -> Iterator[str]:
    """What the user and the system said; and what the model told the user, who then spoke: a "go ahead" means that."""
    yield from _leaves(system)
    for i, item in enumerate(messages):
        role = role_of(item)
        if role == "system":
            yield text_of(item)
        elif role == "user" and not observes(messages, i):
            yield text_of(item)
            if i and role_of(messages[i - 1]) == "assistant":
                yield text_of(messages[i - 1])


def text_of(item: Any) -> str:
    """The text of a message."""
    body = body_of(mapping_of(item))
    if type(body) is list and len(body) == 1 and type(body[0]) is dict and body[0].get("type") == "text":
        return _plain(body[0])
    content = content_of(body)
    return content if isinstance(content, str) else "\n".join(part for part in content if isinstance(part, str))
