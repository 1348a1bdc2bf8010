"""Content that comes as log records: joined to its span by trace and span id, as events of that span.

Nobody waits for logs. A span is read at once; where its content comes later, it is read once more, with its content, and the
same call goes out again. What waits here is bounded in bytes, in number, and in the time of its receipt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spanfuse_processor.otlp.dialects.sources import MESSAGE_EVENTS, has_content
from spanfuse_processor.otlp.shelf import Shelf, weight
from spanfuse_processor.otlp.span import STATUS_ERROR, LogRecord, Span, SpanEvent
from spanfuse_processor.otlp.values import load_json

WAIT_NS: Final = 15 * 60 * 1_000_000_000
"""How long content and spans wait for one another: a model call that thinks for long logs its input when it begins, and its
span comes when it has ended."""
PART_WAIT_NS: Final = 10 * 1_000_000_000
"""How long a span waits for its reply once its input is here, or the other way round, until it is read without: exporters
send logs every second."""
MAX_BYTES: Final = 64 * 1024 * 1024
"""Content that waits for its spans."""
MAX_SPANS_BYTES: Final = 32 * 1024 * 1024
"""Spans that wait for their content, some ten thousand."""
MAX_WAITING: Final = 65_536
"""Spans of either kind that are waited for."""

_FIGURES: Final = "claude_code.api_request"
"""No content, but the cost of a model call."""
_WHOLE: Final = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.prompt", "gen_ai.completion")
"""Attributes of an event that hold all messages."""
_ALL: Final = frozenset({"gen_ai.client.inference.operation.details", _FIGURES})
"""Events beside which nothing is expected."""
_REPLIES: Final = frozenset({"gen_ai.choice", "gen_ai.content.completion"})
_INPUTS: Final = frozenset(
    {
        "gen_ai.system.message",
        "gen_ai.user.message",
        "gen_ai.assistant.message",
        "gen_ai.tool.message",
        "gen_ai.content.prompt",
    }
)
CONTENT: Final = _ALL | _REPLIES | _INPUTS
"""Events that are joined: content, or what a call came to."""
_NAME_KEYS: Final = ("event.name", "event_name")
_BODY_KEYS: Final = frozenset({"content", "message", "parts", "role", "tool_calls", *_WHOLE})
"""By which JSON is told to be a message; else it is the text of one."""
_PREFIXES: Final = ("", "claude_code.")

Key = tuple[str, str]
"""Trace id and span id."""


def content_name(record: LogRecord) -> str:
    """The name of the event if it carries content or figures of a model call or tool execution, else empty.

    It is the record's own field, or an attribute, or stands in the body: each has been the convention.
    """
    body = record.body
    inner = [body.get(key) for key in _NAME_KEYS] if isinstance(body, dict) else [body]
    for stated in (record.event_name, *(record.attributes.get(key) for key in _NAME_KEYS), *inner):
        if isinstance(stated, str) and stated:
            for prefix in _PREFIXES:
                if prefix + stated in CONTENT:
                    return prefix + stated if _has_content(event_of(record, prefix + stated)) else ""
    return ""


def _has_content(event: SpanEvent) -> bool:
    """Whether there is more than the mere event, which instrumentation writes also where it may not capture content."""
    if event.name in MESSAGE_EVENTS:
        return has_content(event)
    return event.name == _FIGURES or any(event.attributes.get(key) for key in _WHOLE)


def joinable(record: LogRecord) -> bool:
    """Whether a record is content of a span."""
    return bool(record.trace_id and record.span_id and content_name(record))


def event_of(record: LogRecord, name: str) -> SpanEvent:
    """The record as an event of its span: its attributes and what its body says, be it a map, or JSON text of a message; any
    other body stands under `body`."""
    body = _map(record.body)
    if body is None:
        body = {} if record.body is None or record.body == name else {"body": record.body}
    return SpanEvent(name, record.time_ns, {**record.attributes, **body})


def _map(body: Any) -> dict[str, Any] | None:
    if isinstance(body, str) and body.lstrip()[:1] == "{":
        try:
            body = load_json(body)
        except ValueError:
            return None
        return body if body.keys() & _BODY_KEYS else None
    return body if isinstance(body, dict) else None


def attach(span: Span, events: Iterable[SpanEvent]) -> None:
    """Add events to a span in the order of their times, each once: what a client has sent twice is one message."""
    kept: dict[tuple[str, int, str], SpanEvent] = {}
    for event in sorted(events, key=lambda event: event.time_ns):
        kept.setdefault((event.name, event.time_ns, repr(event.attributes)), event)
    span.events = [*span.events, *kept.values()]


@dataclass(slots=True)
class _Content:
    """What has come for one span."""

    events: list[SpanEvent] = field(default_factory=list)
    size: int = 0

    def complete(self, span: Span) -> bool:
        """Whether nothing more is expected: there are input and reply, or there will be no reply.

        A reply may overtake its input, where each record is a request of its own.
        """
        names = {event.name for event in self.events}
        whole = names & _ALL or (names & _REPLIES and names & _INPUTS)
        return span.status_code == STATUS_ERROR or bool(whole)


class Joiner:
    """Joins log records to spans, whichever come first.

    Args:
        counters: gets, in records, `logs_joined`; `logs_other` (no content of model calls or tools), `logs_loose` (content
            written outside of any span) and `logs_unmatched` (content whose span never came, or had its own), which are
            dropped.
    """

    def __init__(self, counters: Counter[str]) -> None:
        self._counters = counters
        self._content: Shelf[Key, _Content] = Shelf(MAX_BYTES, MAX_WAITING)
        self._wanting: Shelf[Key, Span] = Shelf(MAX_SPANS_BYTES, MAX_WAITING)
        self._parts: Shelf[Key, None] = Shelf(MAX_WAITING, MAX_WAITING)
        """Spans that are here with a part of their content."""
        self._spans_ns = 0
        self._logs_ns = 0

    def spans(self, spans: Sequence[Span], received_ns: int) -> Sequence[Span]:
        """Take the spans of a request: the content that came before them is added to them.

        Args:
            received_ns: when they were received, nanoseconds since the Unix epoch.

        Returns:
            The spans to read: these, and earlier ones whose reply, or input, has not come in time.
        """
        self._spans_ns = max(self._spans_ns, received_ns)
        if not len(self._content):
            return spans
        for span in spans:
            key = (span.trace_id, span.span_id)
            content = self._content.get(key)
            if content is not None and content.complete(span):
                self._join(key, span)
        return [*spans, *self._overdue()]

    def wants(self, span: Span, received_ns: int) -> None:
        """Keep a span whose content may still come: of a model call or tool execution that has none."""
        key = (span.trace_id, span.span_id)
        self._wanting.put(key, span, weight(span.attributes), received_ns)
        if self._logs_ns:
            self._wanting.expire(self._logs_ns - WAIT_NS)
        if key in self._content:
            self._parts.put(key, None, 1, received_ns)

    def logs(self, records: Iterable[LogRecord], received_ns: int) -> list[Span]:
        """Take the records of a request.

        Returns:
            The spans that have their content now, to be read again.
        """
        self._logs_ns = max(self._logs_ns, received_ns)
        touched: dict[Key, None] = {}
        for record in records:
            name = content_name(record)
            if not name:
                self._counters["logs_other"] += 1
            elif not record.trace_id or not record.span_id:
                self._counters["logs_loose"] += 1
            else:
                key = (record.trace_id, record.span_id)
                self._add(key, event_of(record, name), received_ns)
                touched[key] = None
        found = [span for key in touched if (span := self._matched(key, received_ns)) is not None]
        self._drop(self._content.expire(self._spans_ns - WAIT_NS))
        return [*found, *self._overdue()]

    def end(self) -> list[Span]:
        """Nothing more will come: content that waits is dropped.

        Returns:
            The spans of which a part of the content has come, to be read again.
        """
        self._logs_ns = max(self._spans_ns, self._logs_ns) + PART_WAIT_NS + 1
        found = self._overdue()
        self._drop(self._content.expire(self._logs_ns))
        return found

    def _add(self, key: Key, event: SpanEvent, received_ns: int) -> None:
        content = self._content.get(key) or _Content()
        content.events.append(event)
        content.size += weight(event.attributes)
        self._drop(self._content.put(key, content, content.size, received_ns))

    def _matched(self, key: Key, received_ns: int) -> Span | None:
        span, content = self._wanting.get(key), self._content.get(key)
        if span is None or content is None:
            return None
        if not content.complete(span):
            if key not in self._parts:
                self._parts.put(key, None, 1, received_ns)
            return None
        return self._join(key, span)

    def _join(self, key: Key, span: Span) -> Span:
        content = self._content.pop(key)
        self._wanting.pop(key)
        self._parts.pop(key)
        if content is not None:
            self._counters["logs_joined"] += len(content.events)
            attach(span, content.events)
        return span

    def _overdue(self) -> list[Span]:
        """Spans of which no more than a part of the content has come."""
        now_ns = max(self._spans_ns, self._logs_ns)
        keys = [key for key, _ in self._parts.expire(now_ns - PART_WAIT_NS)]
        return [self._join(key, span) for key in keys if (span := self._wanting.get(key)) is not None]

    def _drop(self, dropped: Iterable[tuple[Key, _Content]]) -> None:
        for _, content in dropped:
            self._counters["logs_unmatched"] += len(content.events)
