"""LangChain's messages in the form of OpenAI's chat, which the Guard reads. By their attributes: nothing of it is imported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from spanfuse.reading.parts import CALL_TYPES
from spanfuse.reading.token_usage import field_of

_ROLES: Final = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant"}

_MOST: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens", "max_tokens_to_sample", "num_predict")


def as_dicts(messages: Iterable[Any]) -> list[Any]:
    """Messages of a conversation, oldest first."""
    return [as_dict(message) for message in messages]


def as_dict(message: Any) -> Any:
    """One message; what is none is left as it is."""
    kind = getattr(message, "type", None)
    if not isinstance(kind, str):
        return message
    role = getattr(message, "role", None) if kind == "chat" else None
    found = {"role": role or _ROLES.get(kind, kind), "content": message.content}
    if calls := getattr(message, "tool_calls", None):
        found["content"] = _without_calls(message.content)
        found["tool_calls"] = calls
    if kind == "tool":
        found |= {"tool_call_id": message.tool_call_id, "name": message.name, "is_error": message.status == "error"}
    return found


def _without_calls(content: Any) -> Any:
    """Content whose calls of tools are told elsewhere, as Anthropic's blocks are."""
    if not isinstance(content, list):
        return content
    return [part for part in content if not (isinstance(part, dict) and part.get("type") in CALL_TYPES)]


def as_response(message: Any) -> dict[str, Any]:
    """A message of the model as the response of a provider."""
    told = getattr(message, "response_metadata", None) or {}
    ended = told.get("finish_reason") or told.get("stop_reason")
    return {
        "id": told.get("id") or getattr(message, "id", None),
        "model": told.get("model_name") or told.get("model") or "",
        "choices": [{"message": as_dict(message), "finish_reason": ended}],
        "usage": getattr(message, "usage_metadata", None),
    }


def max_tokens(settings: Any) -> int | None:
    """The most that a model may answer, by the parameters of the call or the fields of the model."""
    return next((found for name in _MOST if type(found := field_of(settings, name)) is int), None)
