"""Tokens, cost, finish reason and time to the first token of a model call."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

from spanfuse.reading.parts import calls_of, mapping_of
from spanfuse_processor.otlp.dialects.dialect import Dialect
from spanfuse_processor.otlp.dialects.forms import Cut, load_text
from spanfuse_processor.otlp.span import Span
from spanfuse_processor.otlp.values import MAX_COST_USD, bounded, find, name, number, tokens
from spanfuse_schemas import Tokens
from spanfuse_schemas.names import MAX_NAME

CHARS_PER_TOKEN: Final = 4
"""Where usage is missing, a token is taken to be this many characters."""

_NANO: Final = 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TTFT_NS: Final = 24 * 3600 * _NANO
_OVERHEAD: Final = ("gen_ai.system_instructions", "gen_ai.tool.definitions", "llm.request.functions.", "llm.tools.")
"""How the attributes of those parts of the input begin that are not among its messages."""

_NO_TEXT: Final = frozenset(
    {"role", "type", "id", "tool_call_id", "tool_use_id", "finish_reason"}
    | {"response_metadata", "usage_metadata", "generation_info"}
)
"""Keys of messages whose values cost no tokens to speak of."""

_FINISH: Final = {
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call"), "tool_calls"),
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "completed", "complete", "eos"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "incomplete"), "length"),
    **dict.fromkeys(("content_filter", "refusal", "safety"), "content_filter"),
    **dict.fromkeys(("cancelled", "canceled", "abort", "aborted", "interrupted"), "cancelled"),
}
_BROKEN_OFF: Final = re.compile(
    r"cancel|\babort|abort(?:ed)?error|generator.?exit|interrupt|client.?disconnect", re.IGNORECASE
)
"""Types and messages of errors by which the caller ends a call."""


Ending = Literal["complete", "failed", "broken off"]


class Usage(NamedTuple):
    """Tokens of a call."""

    tokens: Tokens
    estimated: bool
    """Some of them are an estimate, or a lower bound: the call was broken off."""


def read_usage(span: Span, dialect: Dialect, messages: Any, reply: Any, ended: Ending, counters: Counter[str]) -> Usage:
    """The tokens that were reported, with estimates in place of those that were not.

    A failure of which nothing was reported used nothing. A call that was broken off used at least what was reported, and what
    it had brought by then: a stream that is cancelled often reports its first chunk alone.

    Args:
        messages: input messages, from whose size missing counts are estimated.
        reply: output messages; likewise.
    """
    said = _reported(span, dialect, counters)
    if ended == "failed":
        return Usage(_tokens(said), False)
    if not said.input and not said.output:  # some report 0 for what they do not know
        said = said._replace(input=None, output=None)
    broken = ended == "broken off"
    no_input = said.input is None and not said.read + said.write
    no_output = said.output is None and not (said.input is not None and reply is None) and not _embeds(span, dialect)
    brought = characters(reply) // CHARS_PER_TOKEN if no_output or broken else 0
    output = max(said.output or 0, brought, said.reasoning if no_output else 0)
    sent = no_input and (output or not broken)
    if sent or output != said.output:
        said = said._replace(input=_sent(span, messages) if sent else said.input, output=output)
    return Usage(_tokens(said), no_input or no_output or broken)


class _Reported(NamedTuple):
    input: int | None
    """Those of the cache included; `None`: not reported."""
    output: int | None
    read: int
    write: int
    reasoning: int


def _reported(span: Span, dialect: Dialect, counters: Counter[str]) -> _Reported:
    attributes, quirks = span.attributes, dialect.quirks
    fresh = tokens(attributes, dialect.input_tokens, counters)
    output = tokens(attributes, dialect.output_tokens, counters)
    total = tokens(attributes, dialect.total_tokens, counters)
    read = tokens(attributes, dialect.cache_read, counters) or 0
    write = tokens(attributes, dialect.cache_write, counters) or 0
    reasoning = tokens(attributes, dialect.reasoning, counters) or 0
    cached = read + write
    beside = None if not total or fresh is None or output is None else total - fresh - output
    if quirks.input_excludes_cache or cached > (fresh or 0) or (cached and beside in (cached, cached + reasoning)):
        fresh = (fresh or 0) + cached if fresh is not None or cached else None
    if output and reasoning:
        if beside in (reasoning, cached + reasoning):
            output += reasoning
        elif beside == -reasoning or (quirks.reasoning_twice and _asked(span, dialect, quirks.reasoning_twice)):
            output = max(output - reasoning, reasoning)
    return _Reported(fresh, output, read, write, reasoning)


def _embeds(span: Span, dialect: Dialect) -> bool:
    """Whether a model call brings vectors, which are no tokens."""
    return name(span.attributes, dialect.operation).lower().startswith("embed")


def _asked(span: Span, dialect: Dialect, pattern: str) -> bool:
    return re.fullmatch(pattern, name(span.attributes, dialect.request_model)) is not None


def _tokens(found: _Reported) -> Tokens:
    output = found.output or 0
    return Tokens(
        input=found.input or 0,
        output=output,
        cache_read=found.read,
        cache_write=found.write,
        reasoning=min(found.reasoning, output),
    )


def _sent(span: Span, messages: Any) -> int:
    """What the input comes to, by its size."""
    overhead = sum(
        len(text) for key, text in span.attributes.items() if key.startswith(_OVERHEAD) and isinstance(text, str)
    )
    return (characters(messages) + overhead) // CHARS_PER_TOKEN


def ending(span: Span, error: str, finish: str) -> Ending:
    """How a call ended, by the type of its error, or its finish reason. Broken off is one whose caller left before the answer
    was complete, so that what is known of it is a lower bound."""
    said = span.status_message if error == "error" else error
    if finish == "cancelled" or (len(said) <= MAX_NAME and _BROKEN_OFF.search(said)):
        return "broken off"
    return "failed" if error else "complete"


def characters(value: Any) -> int:
    """Characters of all texts within messages, or of what they were before they were cut."""
    if isinstance(value, Cut):
        return value.size
    if isinstance(value, str):
        return len(value)
    total = 0
    todo = [value]
    for item in todo:  # it grows while it is walked
        inner: Iterable[Any]
        if type(item) is dict:
            inner = [one for key, one in item.items() if key not in _NO_TEXT]
        elif isinstance(item, (list, tuple)):
            inner = item
        else:
            continue
        for one in inner:
            if type(one) is str:
                total += len(one)
            elif one:
                todo.append(one)
    return total


def reported_cost(span: Span, dialect: Dialect, counters: Counter[str]) -> int | None:
    """The cost that the instrumentation reported, nano-dollars. A reported 0 is no price: some write it for want of one."""
    value = find(span.attributes, dialect.cost, span.events)
    if value is None:
        return None
    usd = number(value)
    if usd is None or not 0 <= usd <= MAX_COST_USD:
        counters["cost_invalid"] += 1
        return None
    return round(usd * _NANO) or None


def finish_reason(span: Span, dialect: Dialect, reply: Any) -> str:
    """The first finish reason, under its common name."""
    value = find(span.attributes, dialect.finish)
    if value is None and isinstance(reply, list) and reply and isinstance(reply[-1], dict):
        value = reply[-1].get("finish_reason")
    value = load_text(value)
    if isinstance(value, (list, tuple)):
        value = next(iter(value), None)
    text = bounded(value).lstrip("[{").rpartition(".")[2].lower().replace("-", "_")
    if text == "completed" and isinstance(reply, list) and any(calls_of(mapping_of(item)) for item in reply):
        return "tool_calls"  # a status of the Responses API, the same for every answer
    return _FINISH.get(text, text)


def ttft_ns(span: Span, dialect: Dialect) -> int:
    """Time to the first token, nanoseconds; 0 where unknown."""
    for key, unit in dialect.ttft:
        found = number(span.attributes.get(key))
        if found is not None and 0 < found * unit < _MAX_TTFT_NS:
            return int(found * unit)
    first_ns = _instant_ns(find(span.attributes, dialect.first_token_at)) or next(
        (event.time_ns for event in span.events if event.name in dialect.ttft_events), 0
    )
    return first_ns - span.start_ns if 0 < first_ns - span.start_ns < _MAX_TTFT_NS else 0


def _instant_ns(value: Any) -> int:
    """A time in ISO 8601, nanoseconds since the Unix epoch; 0 for anything else, and where it is in no known zone."""
    try:
        at = datetime.fromisoformat(value.strip('"')) if isinstance(value, str) else None
    except ValueError:
        return 0
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000 if at is not None and at.tzinfo is not None else 0
