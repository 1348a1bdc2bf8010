"""LangChain's messages in the form of OpenAI's chat, which the Guard reads. By their attributes: nothing of it is imported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from spanfuse.reading.parts import CALL_TYPES
from spanfuse.reading.token_usage import field_of

_NONE: Final[dict[str, Any]] = {}
_ROLES: Final = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant"}

_MOST: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens", "max_tokens_to_sample", "num_predict")


def as_dicts(messages: Iterable[Any]) -> list[Any]:
    """Messages of a conversation, oldest first."""
    return [as_dict(message) for message in messages]


def as_dict(message: Any) -> Any:
    """One message; what is none is left as it is."""
    fields = getattr(
        message, "__dict__", _NONE
    )  # asked for a field that it has not, a message makes an error of it first
    kind = fields.get("type")
    if not isinstance(kind, str):
        return message
    found = {"role": _ROLES.get(kind) or fields.get("role") or kind, "content": fields.get("content")}
    if calls := fields.get("tool_calls"):
        found["content"] = _without_calls(found["content"])
        found["tool_calls"] = calls
    if kind == "tool":
        called, failed = fields.get("tool_call_id"), fields.get("status") == "error"
        found |= {"tool_call_id": called, "name": fields.get("name"), "is_error": failed}
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
