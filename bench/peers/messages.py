"""Recorded messages, whoever wrote them, in the form that peers know: that of the OpenAI Chat API; and what replies did."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from bench.peers.protocol import Step
from spanfuse.reading.parts import (
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

_ID_KEYS: Final = ("call_id", "tool_call_id", "tool_use_id", "toolCallId", "id")
_NAME_KEYS: Final = ("name", "toolName", "tool_name")
_ARGUMENT_KEYS: Final = ("arguments", "input", "args", "server_tool_call")
_RESULT_KEYS: Final = ("parts", "response", "result", "content", "output", "server_tool_call_response")


def chat(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """Messages of the OpenAI Chat API: texts, tool calls with their arguments as JSON values, one message per tool result."""
    return [made for message in messages for made in _chat(mapping_of(message))]


def _chat(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    role, body = role_of(item), body_of(item)
    parts = [] if isinstance(body, str) else parts_of(body)
    results = [_result(part) for part in parts if part["type"] in RESULT_TYPES]
    if role == "tool" and not results:
        return [_result(item)]
    text, calls = _text(content_of(body)), _tool_calls(item, parts)
    if results and not text and not calls:
        return results
    return [*results, {"role": role, "content": text, **({"tool_calls": calls} if calls else {})}]


def _tool_calls(item: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found = [part for part in parts if part["type"] in CALL_TYPES]
    extra = item.get("tool_calls")
    if isinstance(extra, (list, tuple)):
        found += [mapping_of(call) for call in extra]
    elif not found and isinstance(item.get("function_call"), Mapping):
        found = [item["function_call"]]
    return [_tool_call(call) for call in found]


def _tool_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    named = function if isinstance(function, Mapping) else call
    arguments = _parsed(first_of(named, _ARGUMENT_KEYS))
    return {
        "id": name_of(call, _ID_KEYS),
        "type": "function",
        "function": {"name": name_of(named, _NAME_KEYS), "arguments": {} if arguments is None else arguments},
    }


def _result(part: Mapping[str, Any]) -> dict[str, Any]:
    value = first_of(part, _RESULT_KEYS)
    if isinstance(value, (list, tuple)) and any(isinstance(v, Mapping) and "type" in v for v in value):
        value = content_of(value)
    return {"role": "tool", "content": _text(value), "tool_call_id": name_of(part, _ID_KEYS)}


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)


def _parsed(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def steps(reply: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[Step]:
    """What a reply did, and what the input of the next call says of it.

    Args:
        reply: the call's output, as `chat` gives it; where nothing was captured, what the next call says it was.
        after: the input of the next call.
    """
    end = len(after)
    while end and after[end - 1]["role"] != "assistant":
        end -= 1
    begin = end
    while begin and after[begin - 1]["role"] == "assistant":
        begin -= 1
    replied = reply or after[begin:end]
    fresh = [message for message in after[end:] if message["role"] != "system"]
    calls = [call for message in replied for call in message.get("tool_calls", ())]
    whole = "\n".join(message["content"] for message in fresh)
    if calls:
        return _with_results(calls, [message for message in fresh if message["role"] == "tool"], whole)
    texts = [message["content"] for message in replied if message["content"].strip()]
    return [Step(tool="", arguments=texts[-1], result=whole)] if texts else []


def _with_results(calls: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]], whole: str) -> list[Step]:
    """Results belong to calls by id, else by order; without any, all that is new is the result."""
    by_id = {result["tool_call_id"]: result["content"] for result in results if result["tool_call_id"]}
    made = []
    for number, call in enumerate(calls):
        by_order = results[number]["content"] if len(results) == len(calls) else whole
        function = call["function"]
        result = by_id.get(call["id"], by_order)
        made.append(Step(tool=function["name"], arguments=function["arguments"], result=result))
    return made
