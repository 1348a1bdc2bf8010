"""What each span of a recording becomes, and why: for people who connect an instrumentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from spanfuse.reading.messages import named_call
from spanfuse.reading.parts import calls_of, mapping_of
from spanfuse.reading.prints import unwrapped
from spanfuse_processor.hosts.spans import Reading, windows
from spanfuse_processor.otlp.dialects import dialect_of
from spanfuse_processor.otlp.dialects.forms import load_text
from spanfuse_processor.otlp.dialects.sources import read_sources
from spanfuse_processor.otlp.failure import error_type
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_processor.otlp.span import Span
from spanfuse_processor.otlp.values import find
from spanfuse_processor.otlp.verdict import Verdict
from spanfuse_schemas import Tokens

AGAIN: Final = "delivered again"
"""Beginning of the reason of a span that came before."""
_NOTHING: Final = Tokens()


def inspect(paths: Iterable[Path], normaliser: Normaliser, reading: Reading) -> Iterator[list[dict[str, Any]]]:
    """What the spans of files and directories become: a row a span, in their order, in windows (see `spans.MAX_SPANS`).

    Args:
        paths: files and directories, see `recordings`.
        normaliser: makes calls of spans.
        reading: is told what was read, and what could not be.
    """
    for spans in windows(paths, reading):
        yield [row(verdict) for verdict in verdicts(spans, normaliser)]


def verdicts(spans: list[Span], normaliser: Normaliser) -> list[Verdict]:
    """What each of some spans becomes, as if they had all come in one request when the last of them had ended. A span that
    comes twice counts the first time."""
    first: dict[tuple[str, str], int] = {}
    places = [first.setdefault((s.trace_id, s.span_id), len(first)) if s.span_id else _new(first) for s in spans]
    once = dict(zip(reversed(places), reversed(spans), strict=True))
    received_ns = max((span.end_ns for span in spans), default=0)
    found = normaliser.explain([once[place] for place in range(len(first))], received_ns)
    told = set[int]()
    return [_again(found[place], told, place) for place in places]


def _new(first: dict[tuple[str, str], int]) -> int:
    """The place of a span without ids, which is like no other."""
    return first.setdefault(("", str(len(first))), len(first))


def _again(verdict: Verdict, told: set[int], place: int) -> Verdict:
    if place not in told:
        told.add(place)
        return verdict
    return replace(verdict, counted=False, reason=f"{AGAIN}: span {verdict.span.span_id} came before")


def row(verdict: Verdict) -> dict[str, Any]:
    """A span as `spanfuse inspect --format json` tells it; every key is always there.

    Texts are empty where nothing is known, numbers 0, lists empty; `error` and `arguments` are null.
    """
    span, call = verdict.span, verdict.call
    error = call.error_type if call is not None else error_type(span)
    return {
        "span_id": span.span_id,
        "trace_id": span.trace_id,
        "parent_span_id": span.parent_span_id,
        "name": span.name,
        "dialect": verdict.dialect,
        "kind": verdict.role,
        "counted": verdict.counted,
        "reason": verdict.reason,
        "session": verdict.session,
        "session_source": verdict.session_source,
        "user": verdict.user,
        "team": verdict.team,
        "agent": verdict.agent,
        "provider": call.provider if call else "",
        "model": call.model if call else "",
        "tokens": (call.tokens if call else _NOTHING).model_dump(),
        "usage_estimated": bool(call and call.usage_estimated),
        "cost_nano_usd": call.cost_nano_usd if call else 0,
        "cost_source": call.cost_source if call and call.kind == "llm" else "",
        "content": call.content if call else "",
        "finish_reason": call.finish_reason if call else "",
        "error": error or None,
        "tool_calls": _tool_calls(span) if verdict.role == "llm" else [],
        "tool_name": call.called[0] if call and call.kind == "tool" and call.called else "",
        "arguments": _arguments(span) if verdict.role == "tool" else None,
    }


def _tool_calls(span: Span) -> list[dict[str, Any]]:
    """The tool calls that a model call issued."""
    reply = read_sources(dialect_of(span).output, span, "assistant")
    if not isinstance(reply, list):
        return []
    calls = (named_call(call) for message in reply for call in calls_of(mapping_of(message)))
    return [{"name": name, "arguments": arguments} for name, arguments in calls]


def _arguments(span: Span) -> Any:
    """What a tool was executed with."""
    return unwrapped(load_text(find(span.attributes, dialect_of(span).tool_arguments, span.events)))
