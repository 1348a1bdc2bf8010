"""Pydantic AI, which Logfire shows: messages in attributes, or in version 1 of its format a list of events in one of them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from spanfuse_processor.otlp.dialects.dialect import (
    CACHE_READ,
    CACHE_WRITE,
    NAME,
    OPERATIONS,
    REASONING,
    TOOL_ARGUMENTS,
    TOOL_RESULT,
    Dialect,
    Quirks,
    Roles,
)
from spanfuse_processor.otlp.dialects.forms import Messages, as_message, load_text
from spanfuse_processor.otlp.dialects.sources import INPUT, INPUT_EVENTS, OUTPUT
from spanfuse_processor.otlp.span import Span

_DETAILS: Final = "gen_ai.usage.details."


class EventList(NamedTuple):
    """Messages that are the items of a list in one attribute, each with the name of the event that it would be."""

    attribute: str
    roles: dict[str, str]
    """Name of an event → role."""

    def read(self, span: Span, role: str) -> Messages:
        items = load_text(span.attributes.get(self.attribute))
        if not isinstance(items, list):
            return None
        known = [(item, item.get("event.name")) for item in items if isinstance(item, dict)]
        return [as_message(_message(item), self.roles[name]) for item, name in known if name in self.roles] or None


def _message(event: dict[str, Any]) -> dict[str, Any]:
    """An event without what says that it is one; its parts have a `kind` where others have a `type`."""
    message = {key: value for key, value in event.items() if key not in ("event.name", "gen_ai.system", "index")}
    inner = message.get("message")
    message = inner if isinstance(inner, dict) else message
    content = message.get("content")
    if isinstance(content, list):
        message = {**message, "content": [_part(part) for part in content]}
    return message


def _part(part: Any) -> Any:
    return {**part, "type": part["kind"]} if isinstance(part, dict) and "kind" in part else part


PYDANTIC_AI: Final = Dialect(
    name="pydantic_ai",
    scopes=("pydantic-ai",),
    attributes=("pydantic_ai.all_messages", "all_messages_events", "model_request_parameters"),
    roles=(OPERATIONS, Roles(NAME, {"agent run": "agent", "invoke_agent*": "agent"})),
    input=(EventList("events", INPUT_EVENTS), *INPUT),
    output=(EventList("events", {"gen_ai.choice": "assistant"}), *OUTPUT),
    cache_read=(
        *CACHE_READ,
        *(f"{_DETAILS}{key}" for key in ("cached_tokens", "cache_read_input_tokens", "cached_content_tokens")),
    ),
    cache_write=(*CACHE_WRITE, f"{_DETAILS}cache_creation_input_tokens"),
    reasoning=(*REASONING, f"{_DETAILS}thoughts_tokens"),
    tool_arguments=(*TOOL_ARGUMENTS, "tool_arguments"),
    tool_result=(*TOOL_RESULT, "tool_response"),
    quirks=Quirks(made_up_session=True),
)
