"""Pydantic AI's messages in the form of OpenAI's chat, which the Guard reads. By attributes: nothing of it is imported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def as_dicts(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """The messages of a conversation, oldest first: one for each part of a request, one for a response."""
    found: list[dict[str, Any]] = []
    for message in messages:
        if message.kind == "response":
            found.append(_response(message))
        else:
            found += [told for part in message.parts if (told := _part(part)) is not None]
    return found


def as_response(response: Any) -> dict[str, Any]:
    """A response of the model as the one of a provider."""
    return {
        "id": getattr(response, "provider_response_id", None),
        "model": response.model_name or "",
        "choices": [{"message": _response(response), "finish_reason": response.finish_reason}],
        "usage": _usage(response.usage),
    }


def instructions(messages: Iterable[Any]) -> str | None:
    """The instructions of the last request that has some."""
    return next((told for m in reversed(list(messages)) if (told := getattr(m, "instructions", None))), None)


def _part(part: Any) -> dict[str, Any] | None:
    kind = part.part_kind
    if kind == "system-prompt":
        return {"role": "system", "content": part.content}
    if kind == "user-prompt":
        return {"role": "user", "content": _content(part.content)}
    if kind == "tool-return":
        failed = getattr(part, "outcome", "success") != "success"
        return _result(part, part.model_response_str()) | {"is_error": failed}
    if kind == "retry-prompt" and part.tool_name:
        return _result(part, part.model_response()) | {"is_error": True}
    said = part.model_response() if hasattr(part, "model_response") else getattr(part, "content", None)
    return {"role": "user", "content": said} if isinstance(said, str) else None


def _result(part: Any, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": part.tool_call_id, "name": part.tool_name, "content": content}


def _content(content: Any) -> Any:
    if isinstance(content, str):
        return content
    return [{"type": "text", "text": item} if isinstance(item, str) else _medium(item) for item in content]


def _medium(item: Any) -> dict[str, Any]:
    """Text with marks, or something that is no text, by what tells it from others."""
    said = getattr(item, "content", None)
    if isinstance(said, str):
        return {"type": "text", "text": said}
    return {"type": "file", "file": getattr(item, "url", None) or getattr(item, "identifier", None) or str(item)}


def _response(response: Any) -> dict[str, Any]:
    said = [part.content for part in response.parts if part.part_kind == "text"]
    calls = [
        {"id": part.tool_call_id, "name": part.tool_name, "arguments": part.args}
        for part in response.parts
        if part.part_kind == "tool-call"
    ]
    found: dict[str, Any] = {"role": "assistant", "content": "\n\n".join(said)}
    return found | {"tool_calls": calls} if calls else found


def _usage(usage: Any) -> dict[str, Any] | None:
    """What was used, input tokens with those of the cache; None while nothing is told."""
    if not (usage.input_tokens or usage.output_tokens):
        return None
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "input_token_details": {"cache_read": usage.cache_read_tokens, "cache_creation": usage.cache_write_tokens},
        "output_token_details": {"reasoning": usage.details.get("reasoning_tokens", 0)},
    }
