"""Tokens, cost, finish reason and time to the first token of a model call."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NamedTuple

from spanfuse_processor.otlp.dialects.dialect import Dialect
from spanfuse_processor.otlp.span import Span
from spanfuse_processor.otlp.values import MAX_COST_USD, MAX_TOKENS, bounded, find, load_json, number, tokens
from spanfuse_schemas import Tokens

CHARS_PER_TOKEN: Final = 4
"""Where usage is missing, a token is taken to be this many characters."""

_NANO: Final = 1_000_000_000
_MAX_TTFT_NS: Final = 24 * 3600 * _NANO
_OVERHEAD_KEYS: Final = ("gen_ai.system_instructions", "gen_ai.tool.definitions")
"""Parts of the input that are not among its messages."""

_NO_TEXT: Final = frozenset({"role", "type", "id", "tool_call_id", "tool_use_id", "finish_reason"})
"""Keys of messages whose values cost no tokens to speak of."""

_FINISH: Final = {
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call"), "tool_calls"),
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "completed", "complete", "eos"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "incomplete"), "length"),
    **dict.fromkeys(("content_filter", "refusal", "safety"), "content_filter"),
}


class Usage(NamedTuple):
    """Tokens of a call."""

    tokens: Tokens
    estimated: bool


def read_usage(span: Span, dialect: Dialect, content: tuple[Any, Any] | None, counters: Counter[str]) -> Usage:
    """The tokens that were reported, with estimates in place of those that were not.

    Args:
        content: input and output messages, from whose size missing counts are estimated; `None`: they are 0, since a
            failure of which nothing was reported used nothing.
    """
    attributes = span.attributes
    fresh = tokens(attributes, dialect.input_tokens, counters)
    output = tokens(attributes, dialect.output_tokens, counters)
    read = tokens(attributes, dialect.cache_read, counters) or 0
    write = tokens(attributes, dialect.cache_write, counters) or 0
    reasoning = tokens(attributes, dialect.reasoning, counters) or 0
    no_input = content is not None and fresh is None and not read + write
    no_output = content is not None and output is None and not (fresh is not None and content[1] is None)
    if content is not None and no_input:
        overhead = sum(len(v) for key in _OVERHEAD_KEYS if isinstance(v := attributes.get(key), str))
        fresh = (characters(content[0]) + overhead) // CHARS_PER_TOKEN
    if content is not None and no_output:
        output = characters(content[1]) // CHARS_PER_TOKEN
    total, out = fresh or 0, output or 0
    if read + write > total:
        total += read + write
    found = Tokens(
        input=min(total, MAX_TOKENS), output=out, cache_read=read, cache_write=write, reasoning=min(reasoning, out)
    )
    return Usage(found, no_input or no_output)


def characters(value: Any) -> int:
    """Characters of all texts within messages."""
    total = 0
    todo = [value]
    for item in todo:  # it grows while it is walked
        if isinstance(item, str):
            total += len(item)
        elif isinstance(item, dict):
            todo += [inner for key, inner in item.items() if inner and key not in _NO_TEXT]
        elif isinstance(item, (list, tuple)):
            todo += item
    return total


def reported_cost(span: Span, dialect: Dialect, counters: Counter[str]) -> int | None:
    """The cost that the instrumentation reported, nano-dollars. A reported 0 is no price: some write it for want of one."""
    value = find(span.attributes, dialect.cost)
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
    if isinstance(value, str) and value[:1] in ("[", '"'):
        try:
            value = load_json(value)
        except ValueError:
            value = None
    if isinstance(value, (list, tuple)):
        value = next(iter(value), None)
    text = bounded(value).rpartition(".")[2].lower().replace("-", "_")
    return _FINISH.get(text, text)


def ttft_ns(span: Span, dialect: Dialect) -> int:
    """Time to the first token, nanoseconds; 0 where unknown."""
    for key, unit in dialect.ttft:
        found = number(span.attributes.get(key))
        if found is not None and 0 < found * unit < _MAX_TTFT_NS:
            return int(found * unit)
    for event in span.events:
        if event.name in dialect.ttft_events and 0 < event.time_ns - span.start_ns < _MAX_TTFT_NS:
            return event.time_ns - span.start_ns
    return 0
