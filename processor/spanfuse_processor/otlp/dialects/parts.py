"""Parts of messages in forms that only some libraries write, brought to common ones."""

from __future__ import annotations

from typing import Any, Final

_CALLS: Final = ("functionCall", "function_call", "toolUse")
_RESULTS: Final = ("functionResponse", "function_response", "toolResult")


def as_call(call: Any) -> Any:
    """A tool call, out of its wrapper."""
    inner = call.get("tool_call") if isinstance(call, dict) else None
    return inner if isinstance(inner, dict) else call


def as_part(part: Any) -> Any:
    """A part with its type: of OpenInference, Gemini, Bedrock, the Vercel AI SDK."""
    if not isinstance(part, dict):
        return part
    inner = part.get("message_content")
    if isinstance(inner, dict):  # a tool call among the parts has its call beside its type
        call = part.get("tool_call")
        part = {**inner, **call} if isinstance(call, dict) else inner
    kind = part.get("type")
    if kind is None:
        return _typed(part)
    output = part.get("output")
    if kind == "tool-result" and isinstance(output, dict) and "value" in output:
        failed = str(output.get("type", "")).startswith("error")
        return {**part, "output": output["value"], **({"is_error": True} if failed else {})}
    return part


def _typed(part: dict[str, Any]) -> dict[str, Any]:
    for key in _CALLS:
        call = part.get(key)
        if isinstance(call, dict):
            arguments = call.get("args", call.get("input", call.get("arguments")))
            return {"type": "tool_call", "id": _id(call), "name": call.get("name"), "arguments": arguments}
    for key in _RESULTS:
        result = part.get(key)
        if isinstance(result, dict):
            return _result(result)
    return {**part, **part["tool_call"]} if isinstance(part.get("tool_call"), dict) else part


def _result(result: dict[str, Any]) -> dict[str, Any]:
    response = result.get("response", result.get("content"))
    if isinstance(response, list) and len(response) == 1 and isinstance(response[0], dict):
        response = response[0].get("json", response[0].get("text", response))
    failed = {"is_error": True} if result.get("status") == "error" else {}
    found = {"type": "tool_call_response", "id": _id(result), "name": result.get("name"), "response": response}
    return {key: value for key, value in {**found, **failed}.items() if value is not None}


def _id(item: dict[str, Any]) -> Any:
    return item.get("toolUseId", item.get("id"))
