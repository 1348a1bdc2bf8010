"""One model call that two instrumentations saw: counted once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from spanfuse_processor.otlp.traces import Traces
from spanfuse_schemas import Call


class Candidate(NamedTuple):
    """A call, and what tells that another span is the same call."""

    call: Call
    scope: str
    response_id: str


def seen_once(candidates: Sequence[Candidate], traces: Traces) -> tuple[list[Call], int]:
    """The calls without those that another one repeats, and how many those were.

    Two spans are one call if their response ids are equal and one lies within the other, or they come from different
    instrumentations and overlap in time. Without an id, a lone model span within a model span is its parent's call.
    """
    kept: dict[int, Candidate] = dict(enumerate(candidates))
    if sum(c.call.kind == "llm" for c in candidates) > 1:
        for inner, outer in [*_within(candidates, traces), *_beside(candidates)]:
            if inner in kept and outer in kept and inner != outer:
                kept[outer] = _merged(kept[outer], kept.pop(inner))
    return [c.call for c in kept.values()], len(candidates) - len(kept)


def _within(candidates: Sequence[Candidate], traces: Traces) -> list[tuple[int, int]]:
    """Pairs of a model span and the nearest model span around it, innermost first."""
    index = {(c.call.trace_id, c.call.span_id): i for i, c in enumerate(candidates) if c.call.kind == "llm"}
    pairs: list[tuple[int, int]] = []
    for i in index.values():
        outer = _around(candidates[i].call, index, traces)
        if outer is not None:
            pairs.append((i, outer))
    inside = [outer for _, outer in pairs]
    same = [(i, o) for i, o in pairs if _same(candidates[i], candidates[o], alone=inside.count(o) == 1)]
    return sorted(same, key=lambda pair: -candidates[pair[0]].call.start_ns)


def _around(call: Call, index: dict[tuple[str, str], int], traces: Traces) -> int | None:
    for node in traces.ancestors(call.trace_id, call.parent_span_id):
        if node.role == "llm":
            return index.get((call.trace_id, node.span_id))
        if node.role != "other":
            return None
    return None


def _same(inner: Candidate, outer: Candidate, *, alone: bool) -> bool:
    if inner.response_id and outer.response_id:
        return inner.response_id == outer.response_id
    return alone and outer.call.start_ns <= inner.call.start_ns and inner.call.end_ns <= outer.call.end_ns


def _beside(candidates: Sequence[Candidate]) -> list[tuple[int, int]]:
    """Pairs of overlapping spans of different instrumentations with one response id, in any place of any trace."""
    first: dict[str, int] = {}
    pairs: list[tuple[int, int]] = []
    for i, found in enumerate(candidates):
        if found.response_id:
            j = first.setdefault(found.response_id, i)
            if j != i and found.scope != candidates[j].scope and _overlap(found.call, candidates[j].call):
                pairs.append((i, j))
    return pairs


def _overlap(a: Call, b: Call) -> bool:
    return a.start_ns < b.end_ns and b.start_ns < a.end_ns


def _merged(outer: Candidate, inner: Candidate) -> Candidate:
    """The one with content, the outer if in doubt, and from the other what it lacks."""
    swap = outer.call.content == "structure" and inner.call.content != "structure"
    keep, other = (inner, outer) if swap else (outer, inner)
    call, more = keep.call, other.call
    update: dict[str, Any] = {
        field: getattr(more, field)
        for field in ("user", "team", "agent", "provider", "model", "finish_reason", "ttft_ns")
        if not getattr(call, field) and getattr(more, field)
    }
    if call.usage_estimated and not more.usage_estimated:
        usage = ("tokens", "usage_estimated", "cost_nano_usd", "cost_source")
        update |= {field: getattr(more, field) for field in usage}
    if call.session_source == "trace" and more.session_source != "trace":
        update |= {"session": more.session, "session_source": more.session_source}
    merged = call.model_copy(update=update) if update else call
    return Candidate(merged, keep.scope, keep.response_id or other.response_id)
