"""Where a span keeps its messages. A source is data that can be read; a dialect lists them, the best first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from spanfuse.reading.parts import calls_of, function_of, mapping_of
from spanfuse.reading.texts import is_hidden
from spanfuse_processor.otlp.dialects.flat import unflatten
from spanfuse_processor.otlp.dialects.forms import Cut, Messages, as_message, as_messages, load_text
from spanfuse_processor.otlp.span import Span, SpanEvent
from spanfuse_processor.otlp.values import EventKey, Keys, find


class Source(Protocol):
    """A place where messages may be."""

    def read(self, span: Span, role: str) -> Messages:
        """The messages that are there, a text without a role as one of `role`; `None` where nothing is."""


class Json(NamedTuple):
    """Messages, a request or response that holds them, or a text: structured, as JSON, or as Python writes it. Keys are those
    of attributes, of fields in them, or of events."""

    keys: Keys

    def read(self, span: Span, role: str) -> Messages:
        return as_messages(find(span.attributes, self.keys, span.events), role)


class Flat(NamedTuple):
    """Messages that were flattened into attributes, `<prefix><index>.<path>`."""

    prefix: str

    def read(self, span: Span, role: str) -> Messages:
        found = unflatten(span.attributes, self.prefix)
        return [as_message(item, role) for item in found] or None


class Events(NamedTuple):
    """One event for each message, or log records that were joined to the span as such; nothing, if none of them has content."""

    roles: Mapping[str, str]
    """Name of an event → role."""

    def read(self, span: Span, role: str) -> Messages:
        found = [_message(event, self.roles[event.name]) for event in span.events if event.name in self.roles]
        return found if any(map(_tells, found)) else None


class Fields(NamedTuple):
    """One message whose parts are in attributes of their own."""

    content: Keys
    tool_calls: Keys = ()

    def read(self, span: Span, role: str) -> Messages:
        content, calls = find(span.attributes, self.content), find(span.attributes, self.tool_calls)
        if content is None and calls is None:
            return None
        return [as_message({"role": role, "content": content, "tool_calls": load_text(calls)}, role)]


class Joined(NamedTuple):
    """Messages whose tool calls are kept apart from their texts."""

    texts: Source
    calls: Source
    """Looked at where `texts` have no tool calls."""

    def read(self, span: Span, role: str) -> Messages:
        texts = self.texts.read(span, role)
        if isinstance(texts, Cut) or any(calls_of(mapping_of(item)) for item in texts or ()):
            return texts
        calls = self.calls.read(span, role)
        return texts if not isinstance(calls, list) else [*(texts or ()), *calls]


class Streamed(NamedTuple):
    """Messages of a reply that came in pieces, each a message without a `finish_reason`, behind which the whole stands once
    more."""

    source: Source

    def read(self, span: Span, role: str) -> Messages:
        found = self.source.read(span, role)
        if not isinstance(found, list) or len(found) < 2 or not _ends(found[-1]):
            return found
        return [item for item in found[:-1] if not _is_piece(item)] + found[-1:]


def _ends(item: Any) -> bool:
    return isinstance(item, dict) and bool(item.get("finish_reason"))


def _is_piece(item: Any) -> bool:
    return isinstance(item, dict) and item.get("finish_reason") == ""


INPUT_EVENTS: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
DETAILS_EVENT: Final = "gen_ai.client.inference.operation.details"

INPUT: Final[tuple[Source, ...]] = (
    Json(("gen_ai.input.messages", EventKey(DETAILS_EVENT, "gen_ai.input.messages"))),
    Flat("gen_ai.prompt."),
    Json(("gen_ai.prompt",)),
    Events(INPUT_EVENTS),
    Json((EventKey("gen_ai.content.prompt", "gen_ai.prompt"),)),
)
"""Of the conventions, from the newest version to the oldest."""
OUTPUT: Final[tuple[Source, ...]] = (
    Json(("gen_ai.output.messages", EventKey(DETAILS_EVENT, "gen_ai.output.messages"))),
    Flat("gen_ai.completion."),
    Json(("gen_ai.completion",)),
    Events({"gen_ai.choice": "assistant"}),
    Json((EventKey("gen_ai.content.completion", "gen_ai.completion"),)),
)
SYSTEM: Final[Keys] = ("gen_ai.system_instructions", EventKey(DETAILS_EVENT, "gen_ai.system_instructions"))
"""Instructions that are kept apart from the messages."""


def read_sources(sources: Iterable[Source], span: Span, role: str) -> Messages:
    """The messages of the first source that has some that say anything; else of the first that has any."""
    fallback: Messages = None
    for source in sources:
        found = source.read(span, role)
        if isinstance(found, list) and any(map(says, reversed(found))):
            return found
        fallback = found if fallback is None else fallback
    return fallback


MESSAGE_EVENTS: Final = {**INPUT_EVENTS, "gen_ai.choice": "assistant"}


def has_content(event: SpanEvent) -> bool:
    """Whether an event of a message has its content, too."""
    return _tells(_message(event, MESSAGE_EVENTS[event.name]))


def _message(event: SpanEvent, role: str) -> Any:
    return as_message(_body(event), role)


def _tells(item: Any) -> bool:
    """Whether there is content: instrumentation that may not capture any writes its events all the same, with the names of
    tools but without arguments."""
    found = mapping_of(item)
    said = (found.get(key) for key in ("content", "parts"))
    return any(text is not None and not is_hidden(text) for text in said) or any(
        function_of(call).get("arguments") is not None for call in calls_of(found)
    )


def says(item: Any) -> bool:
    """Whether a message says anything."""
    if not isinstance(item, dict) or "role" not in item:
        return bool(item)
    return any(item.get(key) for key in ("content", "parts", "tool_calls", "function_call"))


def _body(event: SpanEvent) -> dict[str, Any]:
    """What an event says: its attributes, or the one attribute that holds all as JSON."""
    body = {key: load_text(value) for key, value in event.attributes.items() if value is not None}
    for key in ("gen_ai.event.content", "body"):
        whole = body.get(key)
        if isinstance(whole, dict):
            return whole
        if whole is not None and "content" not in body:
            body["content"] = whole
    return body
