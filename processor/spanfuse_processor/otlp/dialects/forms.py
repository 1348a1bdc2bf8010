"""The forms that messages have in attributes, brought to those that `spanfuse.reading.messages` reads.

Known are whole requests and responses (OpenAI Chat and Responses, Anthropic, Gemini, Bedrock), messages as LangChain
serialises them, and the wrappers of OpenInference. What needs no change is not copied.
"""

from __future__ import annotations

from operator import is_
from typing import Any, Final

from spanfuse_processor.otlp.dialects.parts import as_call, as_part
from spanfuse_processor.otlp.reprs import python_value
from spanfuse_processor.otlp.values import load_json, unquoted


class Cut:
    """Stands for a content that is there but was cut on its way, so that it has no identity."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size


Messages = list[Any] | Cut | None
"""Message dicts, a content without identity, or nothing captured."""

MAX_DEPTH: Final = 4
"""Envelopes within envelopes that are opened."""
_REQUEST: Final = ("messages", "input", "contents", "prompt")
_RESPONSE: Final = ("choices", "output", "candidates", "generations", "messages", "message")
_MESSAGE_KEYS: Final = frozenset(
    {*_REQUEST, *_RESPONSE, "role", "type", "content", "parts", "text", "tool_calls", "function_call", "lc"}
)
"""Without any of these an object is no message, and holds none."""
_LANGCHAIN_ROLES: Final = {
    "human": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
"""`type` of a message → role."""
_UNCOMMON: Final = frozenset({"message", "function_call_name", "additional_kwargs", "tool_calls", "contents"})
"""Keys of messages that have to be looked into."""
_UNCOMMON_PARTS: Final = (None, "tool-result")
_CLASSES: Final = (("Human", "human"), ("AI", "ai"), ("System", "system"), ("Tool", "tool"), ("Function", "function"))


def load_text(value: Any) -> Any:
    """What a text says in JSON, or as Python writes it, or what Python wrote as a text of JSON; anything else as it is."""
    text = unquoted(value) if isinstance(value, str) else ""
    if text.lstrip()[:1] not in ("[", "{"):
        return value
    try:
        return load_json(text)
    except ValueError:
        found = python_value(text)
        return value if found is None else found


def as_messages(value: Any, role: str, depth: int = MAX_DEPTH) -> Messages:
    """Messages from a structured value, its JSON text, or a plain text, which then is one message of `role`."""
    if isinstance(value, str):
        text, value = unquoted(value), load_text(value)
        if isinstance(value, str):
            if text.lstrip()[:2] in ('{"', '["', "[{", "[["):
                return Cut(len(text))
            return [{"role": role, "content": text}] if text else None
        if isinstance(value, dict) and value.keys().isdisjoint(_MESSAGE_KEYS):  # an answer that is JSON
            return [{"role": role, "content": text}]
    if isinstance(value, dict):
        return _opened(value, role, depth)
    if not isinstance(value, list):
        return None
    if depth and value and isinstance(value[0], list):
        return as_messages(value[0], role, depth - 1)
    if depth and len(value) == 1 and isinstance(value[0], dict) and value[0].get("object") == "response":
        return _opened(value[0], role, depth - 1)
    if value and role == "assistant" and all(map(_is_call, value)):
        return [as_message({"role": role, "tool_calls": value}, role)]
    return [as_message(item, role) for item in value if not _is_definition(item)]


def _is_call(item: Any) -> bool:
    """Whether an item is a tool call, with no message around it."""
    function = item.get("function") if isinstance(item, dict) and "role" not in item else None
    return isinstance(function, dict) and "arguments" in function


def _is_definition(item: Any) -> bool:
    """Whether a message is none, but the definition of a tool, as Langfuse has them behind the messages of LangChain."""
    body = item.get("content") if isinstance(item, dict) and item.get("role") == "tool" else None
    return isinstance(body, dict) and body.get("type") == "function" and "function" in body


def _opened(value: dict[str, Any], role: str, depth: int) -> Messages:
    """Of a message, or of a request or response that holds some."""
    if "role" in value or "lc" in value or not depth:
        return [as_message(value, role)]
    keys = [key for key in (_RESPONSE if role == "assistant" else _REQUEST) if key in value]
    for key in keys:
        inner = value[key]
        if inner is not None and inner != "":
            return as_messages(inner, role, depth - 1)
    return None if keys else [as_message(value, role)]


def as_message(item: Any, role: str) -> Any:
    """A message in a form that is understood; one without a role is of `role`."""
    if not isinstance(item, dict):
        return {"role": role, "content": item}
    if _is_common(item):
        return item
    if "role" not in item or "message" in item:
        item = _named(item, role)
    if "function_call_name" in item:  # OpenInference of OpenAI's first tool calls
        call = {"name": item["function_call_name"], "arguments": item.get("function_call_arguments_json")}
        item = {**item, "function_call": call}
    extra = item.get("additional_kwargs")
    if isinstance(extra, dict) and not item.get("tool_calls"):  # LangChain's, of old
        item = {**item, **{key: extra[key] for key in ("tool_calls", "function_call") if extra.get(key)}}
    calls = item.get("tool_calls")
    if isinstance(calls, list):
        item = {**item, "tool_calls": [as_call(call) for call in calls]}
    if "contents" in item and not item.get("content"):
        item = {**item, "content": item["contents"]}
    key = "parts" if item.get("parts") is not None else "content"
    body = item.get(key)
    if isinstance(body, str) and body[:2] == "[{":
        body = load_text(body)
        if not _are_parts(body):
            return item
    if isinstance(body, dict) and item.get("role") == "tool" and not _are_parts([body]):
        return item  # a result that is an object
    if isinstance(body, (list, dict)):
        parts = _parts(body if isinstance(body, list) else [body], bool(calls))
        item = item if parts is item[key] else {**item, key: parts}
    return item


def _parts(body: list[Any], called: bool) -> list[Any]:
    """Parts in forms that are understood; the very list where nothing had to change."""
    parts = [as_part(part) for part in body]
    if called:  # they tell of the calls that stand beside them
        parts = [part for part in parts if not (isinstance(part, dict) and part.get("type") == "tool_use")]
    return body if len(parts) == len(body) and all(map(is_, parts, body)) else parts


def _is_common(item: dict[str, Any]) -> bool:
    """Whether nothing has to be done about a message, as is nearly always so; each one of a history is asked."""
    if "role" not in item or not item.keys().isdisjoint(_UNCOMMON):
        return False
    body = item.get("parts")
    if body is None:
        body = item.get("content")
    if type(body) is str:
        return body[:2] != "[{"
    if type(body) is not list:
        return body is None
    for part in body:
        if type(part) is not dict or "message_content" in part or part.get("type") in _UNCOMMON_PARTS:
            return False
    return True


def _are_parts(body: Any) -> bool:
    return isinstance(body, list) and all(isinstance(p, dict) and ("type" in p or "text" in p) for p in body)


def _named(item: dict[str, Any], role: str) -> dict[str, Any]:
    """A message with its role: unwrapped, and of LangChain, whose messages have a type in its place."""
    if "lc" in item:
        return _langchain(item.get("kwargs"), str((item.get("id") or [""])[-1]), role)
    inner = item.get("message")
    if isinstance(inner, dict):
        rest = {key: value for key, value in item.items() if key not in ("message", "text", "type")}
        return {"role": role, **rest, **(_named(inner, role) if "role" not in inner else inner)}
    if inner is not None and "content" not in item:
        return {"role": role, **item, "content": inner}
    kind = item.get("type")
    if kind in _LANGCHAIN_ROLES:
        data = item.get("data")
        return _langchain(data if isinstance(data, dict) else item, str(kind), role)
    if kind is None and "text" in item and "content" not in item:  # a completion
        return {"role": role, **item, "content": item["text"]}
    if kind is None and ("content" in item or "parts" in item or "tool_calls" in item or "function_call" in item):
        return {"role": role, **item}
    return item


def _langchain(fields: Any, kind: str, role: str) -> dict[str, Any]:
    if not isinstance(fields, dict):
        return {"role": role, "content": ""}
    found = fields.get("type") or next((name for start, name in _CLASSES if kind.startswith(start)), kind)
    message = {key: value for key, value in fields.items() if key not in ("type", "id")}
    return {**message, "role": _LANGCHAIN_ROLES.get(str(found), fields.get("role", role))}
