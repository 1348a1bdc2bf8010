"""The ways in which two spans of one request are found to tell of one call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from typing import Final

from spanfuse_processor.otlp.candidates import Candidate, shows, standing
from spanfuse_processor.otlp.traces import MAX_HOPS, Traces
from spanfuse_schemas import Call

SLACK_NS: Final = 5_000_000
"""By so much a span may reach beyond the one around it: their clocks differ in resolution."""

NEAR: Final = 16
"""So many calls alike that began later than one are looked at for another span of it."""

Pair = tuple[int, int, bool]
"""The one that goes, the one that stays, and whether the first adds to the second."""


def twins(candidates: Sequence[Candidate]) -> list[Pair]:
    """Spans that differ in their id alone."""
    first: dict[tuple[object, ...], int] = {}
    pairs: list[Pair] = []
    for i, (call, scope, response_id) in enumerate(candidates):
        if call.kind == "llm" and call.parent_span_id:
            j = first.setdefault((call.parent_span_id, call.start_ns, call.end_ns, scope, response_id), i)
            if j != i and candidates[j].call == call.model_copy(update={"span_id": candidates[j].call.span_id}):
                pairs.append((i, j, False))
    return pairs


def again(candidates: Sequence[Candidate]) -> list[Pair]:
    """Spans of one instrumentation with one response and one beginning: a stream that is told of when it ends, its tokens
    guessed, and once more when its usage comes. The one with more tokens stays."""
    first: dict[tuple[object, ...], int] = {}
    pairs: list[Pair] = []
    for i, (call, scope, response_id) in enumerate(candidates):
        if call.kind == "llm" and response_id:
            j = first.setdefault((response_id, scope, call.start_ns), i)
            if candidates[j].call.end_ns != call.end_ns:
                fuller = _size(call) > _size(candidates[j].call)
                pairs.append((j, i, False) if fuller else (i, j, False))
                first[response_id, scope, call.start_ns] = i if fuller else j
    return pairs


def _size(call: Call) -> int:
    """Its tokens."""
    return call.tokens.input + call.tokens.output


def within(candidates: Sequence[Candidate], traces: Traces) -> list[Pair]:
    """Model spans with the nearest model span around them, innermost first."""
    index = {(c.call.trace_id, c.call.span_id): i for i, c in enumerate(candidates) if c.call.kind == "llm"}
    inside: defaultdict[int, list[int]] = defaultdict(list)
    around: dict[int, int] = {}
    for i in index.values():
        call = candidates[i].call
        outer = index.get((call.trace_id, traces.model_above(call.trace_id, call.parent_span_id)))
        if outer is not None and _is_repeated(candidates[outer], candidates[i]):
            inside[outer].append(i)
            around[i] = outer
    pairs: list[Pair] = []
    for outer in sorted(inside, key=lambda place: -_depth(place, around)):
        inner = sorted(inside[outer], key=lambda place: candidates[place].call.end_ns)
        if len(inner) > 1:
            pairs.append((outer, inner[-1], False))
        elif _stays_outside(candidates[outer].call, candidates[inner[0]].call):
            pairs.append((inner[0], outer, True))
        else:
            pairs.append((outer, inner[0], True))
    return pairs


def _depth(place: int, around: Mapping[int, int]) -> int:
    depth = 0
    while place in around and depth < MAX_HOPS:  # parents may go in a circle
        place, depth = around[place], depth + 1
    return depth


def _is_repeated(outer: Candidate, inner: Candidate) -> bool:
    """Whether a model span within another is what the other tells of. Different response ids tell the calls of one
    instrumentation apart, but some make ids of their own. One that failed within one that did not is an attempt that came to
    nothing, and the outer is the call that followed."""
    if outer.response_id and inner.response_id:
        if outer.response_id == inner.response_id:
            return True
        if outer.scope == inner.scope:
            return False
    a, b = outer.call, inner.call
    if (a.operation == "embeddings") != (b.operation == "embeddings") or (b.error_type and not a.error_type):
        return False
    if not a.start_ns - SLACK_NS <= b.start_ns <= a.end_ns + SLACK_NS:
        return False
    # a stream outlasts the span of a library that only hands it on
    return b.end_ns <= a.end_ns + SLACK_NS or (outer.scope != inner.scope and b.parent_span_id == a.span_id)


def _stays_outside(outer: Call, inner: Call) -> bool:
    """The one that shows more stays, the outer if in doubt: it knows more of the agent."""
    return shows(outer) >= shows(inner)


def beside(candidates: Sequence[Candidate], sums: Container[int]) -> list[Pair]:
    """Overlapping spans of different instrumentations with one response id, in any place of any trace."""
    first: dict[str, int] = {}
    pairs: list[Pair] = []
    for i, found in enumerate(candidates):
        if found.response_id and i not in sums:
            j = first.setdefault(found.response_id, i)
            if j != i and found.scope != candidates[j].scope and _overlap(found.call, candidates[j].call):
                richer = standing(candidates[j].call) >= standing(found.call)
                pairs.append((i, j, True) if richer else (j, i, True))
    return pairs


def unnamed(candidates: Sequence[Candidate]) -> list[Pair]:
    """Calls alike, not both with a response id, of which one encloses another of a different instrumentation: failures of a
    model below one span, or below none, calls of a session that took the same tokens of one provider, and those of which one
    is in a trace of its own and that did the same besides."""
    alike: defaultdict[tuple[str | int, ...], list[int]] = defaultdict(list)
    for i, (call, _, _) in enumerate(candidates):
        if call.kind == "llm" and call.error_type:
            trace = call.trace_id if call.parent_span_id else ""
            alike[trace, call.parent_span_id, call.agent, call.provider, call.model].append(i)
            continue
        for key in filter(None, (tokens_taken(call), _done(call))):
            alike[key].append(i)
    pairs: list[Pair] = []
    for places in alike.values():
        places.sort(key=lambda i: candidates[i].call.start_ns)
        taken: set[int] = set()  # of calls made at once each has a span of its own
        for at, i in enumerate(places):
            near = (j for j in places[at + 1 : at + 1 + NEAR] if j not in taken)
            j = next((j for j in near if _encloses(candidates[i], candidates[j])), None)
            if j is not None and _may_be_one(candidates[i].call, candidates[j].call):
                taken.add(j)
                richer = standing(candidates[i].call) >= standing(candidates[j].call)
                pairs.append((j, i, True) if richer else (i, j, True))
    return pairs


def tokens_taken(call: Call) -> tuple[str | int, ...]:
    """What another span of a call has to agree on if it does not know its response id; empty where that is too little."""
    tokens = call.tokens
    known = call.kind == "llm" and call.session_source != "trace" and not call.usage_estimated and tokens.output
    return (call.session, call.provider, tokens.input, tokens.output) if known else ()


def _done(call: Call) -> tuple[str | int, ...]:
    """What it has to agree on besides, where the session is not known to be the same."""
    tokens = call.tokens
    known = call.kind == "llm" and call.action is not None and not call.usage_estimated and tokens.output
    return ("", call.provider, tokens.input, tokens.output, call.action or "", *call.called) if known else ()


def _may_be_one(a: Call, b: Call) -> bool:
    """Whether two calls alike are of one session, or one of them is in a trace of its own, that no session names."""
    return a.session == b.session or any(
        bool(call.error_type) or (not call.parent_span_id and call.session_source == "trace") for call in (a, b)
    )


def _encloses(outer: Candidate, inner: Candidate) -> bool:
    if outer.scope == inner.scope or (outer.response_id and inner.response_id):
        return False
    return inner.call.end_ns <= outer.call.end_ns


def _overlap(a: Call, b: Call) -> bool:
    return a.start_ns < b.end_ns and b.start_ns < a.end_ns
