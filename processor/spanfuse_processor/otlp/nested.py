"""One model call that several spans tell of: counted once, with the best of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from typing import Any, Final, NamedTuple

from spanfuse_processor.otlp.traces import MAX_HOPS, Traces
from spanfuse_schemas import Call, Tokens

SLACK_NS: Final = 5_000_000
"""By so much a span may reach beyond the one around it: their clocks differ in resolution."""

NEAR: Final = 16
"""So many calls alike that began later than one are looked at for another span of it."""

_NOTHING: Final = Tokens()
_LACKING: Final = ("user", "team", "agent", "provider", "model", "finish_reason", "ttft_ns", "response")


class Candidate(NamedTuple):
    """A call, and what tells that another span is the same call."""

    call: Call
    scope: str
    """Name of the instrumentation."""
    response_id: str


def seen_once(candidates: Sequence[Candidate], traces: Traces) -> tuple[dict[int, Candidate], dict[int, int]]:
    """The candidates that count, by their place, and for each of the others the place of the one that it repeats.

    Only the innermost model span is a model call: one that holds others repeats them, whatever is between them but an agent or
    a tool. Spans with the same response id are one call if they come from different instrumentations and overlap, and so are
    failures, which often have none, if one encloses the other; spans that differ in their id alone are one span recorded twice.
    """
    kept: dict[int, Candidate] = dict(enumerate(candidates))
    repeats: dict[int, int] = {}
    if sum(c.call.kind == "llm" for c in candidates) > 1:
        within = dict.fromkeys(_within(candidates, traces))
        sums = {outer for outer, _, merges in within if not merges}  # they are none of the calls that they hold
        pairs = [*_twins(candidates), *_again(candidates), *within, *_beside(candidates, sums), *_unnamed(candidates)]
        for first, second, merges in pairs:
            gone, stays = _last(repeats, first), _last(repeats, second)
            if (first, second, merges) not in within:
                if gone != first or (second in sums and stays != second):
                    continue  # it went for one that is nearer, or the other tells of several
            elif gone != first and (first in sums or _shows(kept[gone].call) > _shows(kept[stays].call)):
                gone, stays = stays, gone  # it went for one that shows more than this one, too
            if gone != stays:
                repeated = kept.pop(gone)
                repeats[gone] = stays
                if first in sums:
                    sums.add(gone)
                elif merges:
                    kept[stays] = _merged(kept[stays], repeated)
    return kept, {gone: _last(repeats, gone) for gone in repeats}


def _last(repeats: dict[int, int], place: int) -> int:
    while place in repeats:
        place = repeats[place]
    return place


Pair = tuple[int, int, bool]
"""The one that goes, the one that stays, and whether the first adds to the second."""


def _twins(candidates: Sequence[Candidate]) -> list[Pair]:
    """Spans that differ in their id alone."""
    first: dict[tuple[object, ...], int] = {}
    pairs: list[Pair] = []
    for i, (call, scope, response_id) in enumerate(candidates):
        if call.kind == "llm" and call.parent_span_id:
            j = first.setdefault((call.parent_span_id, call.start_ns, call.end_ns, scope, response_id), i)
            if j != i and candidates[j].call == call.model_copy(update={"span_id": candidates[j].call.span_id}):
                pairs.append((i, j, False))
    return pairs


def _again(candidates: Sequence[Candidate]) -> list[Pair]:
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


def _within(candidates: Sequence[Candidate], traces: Traces) -> list[Pair]:
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
    return _shows(outer) >= _shows(inner)


def _shows(call: Call) -> tuple[bool, bool]:
    """Whether there is content, and whether what the model did is among it."""
    return call.content != "structure", call.action is not None


def _beside(candidates: Sequence[Candidate], sums: Container[int]) -> list[Pair]:
    """Overlapping spans of different instrumentations with one response id, in any place of any trace."""
    first: dict[str, int] = {}
    pairs: list[Pair] = []
    for i, found in enumerate(candidates):
        if found.response_id and i not in sums:
            j = first.setdefault(found.response_id, i)
            if j != i and found.scope != candidates[j].scope and _overlap(found.call, candidates[j].call):
                richer = _standing(candidates[j].call) >= _standing(found.call)
                pairs.append((i, j, True) if richer else (j, i, True))
    return pairs


def _unnamed(candidates: Sequence[Candidate]) -> list[Pair]:
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
        for at, i in enumerate(places):
            j = next((j for j in places[at + 1 : at + 1 + NEAR] if _encloses(candidates[i], candidates[j])), None)
            if j is not None and _may_be_one(candidates[i].call, candidates[j].call):
                richer = _standing(candidates[i].call) >= _standing(candidates[j].call)
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


def _standing(call: Call) -> tuple[tuple[bool, bool], bool, int]:
    """Of two spans the one that shows more stays, then the one within a trace of what the agent does, then the earlier."""
    return _shows(call), bool(call.parent_span_id), -call.start_ns


def placing(call: Call) -> tuple[bool, bool, bool, int]:
    """How well a span knows to which session its call belongs: it names it, or is within a trace of what the agent does."""
    return call.session_source != "trace", bool(call.parent_span_id), call.content != "structure", -call.start_ns


def _overlap(a: Call, b: Call) -> bool:
    return a.start_ns < b.end_ns and b.start_ns < a.end_ns


def _merged(keep: Candidate, other: Candidate) -> Candidate:
    """One of two spans of a call, with what it lacks from the other."""
    call, more = keep.call, other.call
    update: dict[str, Any] = {f: getattr(more, f) for f in _LACKING if not getattr(call, f) and getattr(more, f)}
    update |= _usage(call, more)
    if call.session_source == "trace" and more.session != call.session and placing(more) > placing(call):
        source = "inherited" if more.session_source == "trace" else more.session_source
        update |= {"session": more.session, "session_source": source}
    if call.error_type and not more.error_type:  # the call went well, and then something around it did not
        update |= {"error_type": "", "error_class": ""}
    merged = call.model_copy(update=update) if update else call
    return Candidate(merged, keep.scope, keep.response_id or other.response_id)


def _usage(call: Call, more: Call) -> dict[str, Any]:
    """Tokens that were measured go before an estimate, more classes of them before fewer, and a reported cost before any."""
    update: dict[str, Any] = {}
    if _measured(more) > _measured(call):
        update = {"tokens": more.tokens, "usage_estimated": more.usage_estimated}
        update |= {"cost_nano_usd": more.cost_nano_usd, "cost_source": more.cost_source}
    if "reported" in (call.cost_source, more.cost_source):
        reported = call if call.cost_source == "reported" else more
        update |= {"cost_nano_usd": reported.cost_nano_usd, "cost_source": "reported"}
    return update


def _measured(call: Call) -> int:
    """How well the tokens of a call are known."""
    if call.usage_estimated or call.tokens == _NOTHING:
        return 0
    tokens = call.tokens
    return 1 + bool(tokens.cache_read) + bool(tokens.cache_write) + bool(tokens.reasoning)
