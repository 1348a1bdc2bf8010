"""OpenTelemetry's GenAI semantic conventions, current and as they were: the attributes, else the span's events."""

from __future__ import annotations

from typing import Any, Final

from spanfuse_processor.otlp.dialects.dialect import Cut, Dialect, Messages
from spanfuse_processor.otlp.span import Span
from spanfuse_processor.otlp.values import load_json

_INPUT_EVENTS: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_DETAILS_EVENT: Final = "gen_ai.client.inference.operation.details"


def _detect(span: Span) -> bool:
    attributes = span.attributes
    return (
        "gen_ai.operation.name" in attributes or "gen_ai.provider.name" in attributes or "gen_ai.system" in attributes
    )


def as_messages(value: Any, role: str) -> Messages:
    """Messages from a structured value, its JSON text, or a plain text, which then is one message of `role`."""
    if isinstance(value, str):
        if value.lstrip()[:1] in ("[", "{"):
            try:
                value = load_json(value)
            except ValueError:
                return Cut(len(value))
        else:
            return [{"role": role, "content": value}] if value else None
    if isinstance(value, dict):
        value = value["messages"] if isinstance(value.get("messages"), list) else [value]
    return value if isinstance(value, list) else None


def messages(span: Span) -> Messages:
    """The input messages of a GenAI span."""
    attributes = span.attributes
    value = attributes.get("gen_ai.input.messages")
    if value is None and span.events:
        return _from_events(span)
    return as_messages(value, "user")


def reply(span: Span) -> Messages:
    """The output messages of a GenAI span."""
    value = span.attributes.get("gen_ai.output.messages")
    if value is None and span.events:
        return _choices(span)
    return as_messages(value, "assistant")


def _from_events(span: Span) -> Messages:
    found: list[Any] = []
    for event in span.events:
        attributes = event.attributes
        if event.name in _INPUT_EVENTS:
            found.append({"role": _INPUT_EVENTS[event.name], **_unpacked(attributes)})
        elif event.name == _DETAILS_EVENT and "gen_ai.input.messages" in attributes:
            return as_messages(attributes["gen_ai.input.messages"], "user")
        elif event.name == "gen_ai.content.prompt":
            return as_messages(attributes.get("gen_ai.prompt"), "user")
    return found or None


def _choices(span: Span) -> Messages:
    for event in span.events:
        attributes = event.attributes
        if event.name == "gen_ai.choice":
            body = _unpacked(attributes)
            message = body.get("message")
            inner = message if isinstance(message, dict) else {"content": message} if message else {}
            return [{**body, **inner, "role": "assistant"}]
        if event.name == _DETAILS_EVENT and "gen_ai.output.messages" in attributes:
            return as_messages(attributes["gen_ai.output.messages"], "assistant")
        if event.name == "gen_ai.content.completion":
            return as_messages(attributes.get("gen_ai.completion"), "assistant")
    return None


def _unpacked(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes of an event, those parsed that hold JSON."""
    return {key: _unpack(value) for key, value in attributes.items() if value is not None}


def _unpack(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return load_json(value)
        except ValueError:
            return value
    return value


GENAI: Final = Dialect(name="genai", detect=_detect, messages=messages, reply=reply)
