"""What a span says of calls that were counted before it came: parents end, and are sent, after their children.

Nothing waits for a parent. A call is counted at once under what is known of it, at worst under its trace, and remembered,
bounded; a span that names a session, a user or a team claims those that lie below it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from spanfuse_processor.otlp.reader import View
from spanfuse_processor.otlp.times import stretch
from spanfuse_processor.otlp.traces import MAX_OPEN, Namer, Open, Trace, Traces
from spanfuse_schemas import Alias, Call
from spanfuse_schemas.fingerprint import exact_hash


def remember(trace: Trace, call: Call) -> None:
    """Keep in mind a call that goes out, if anybody it belongs to is unknown."""
    unnamed = call.session_source == "trace"
    if not (unnamed or not call.user or not call.team) or not call.parent_span_id:
        return
    if any(known.span_id == call.span_id for known in trace.open):
        return  # of a trace too large to remember which of its spans have come before
    tokens = call.tokens
    trace.open.append(
        Open(
            call.span_id,
            call.parent_span_id,
            call.start_ns,
            call.session,
            unnamed,
            not call.user,
            not call.team,
            call.cost_nano_usd,
            tokens.input,
            tokens.output,
            1 if call.kind == "llm" else 0,
        )
    )
    if len(trace.open) > MAX_OPEN:
        del trace.open[0]


def claims(traces: Traces, views: Iterable[View], received_ns: int) -> list[Alias]:
    """What spans that are new say of the calls that were counted before they came.

    Args:
        received_ns: when they were received, nanoseconds since the Unix epoch.
    """
    found: list[Alias] = []
    here: dict[str, None] = {}
    for view in views:
        trace_id = view.span.trace_id
        here[trace_id] = None
        trace, namer = traces.of(trace_id), _namer_of(view, received_ns)
        if namer is not None:
            trace.name(namer)
            if namer.holds and namer.session and not trace.called:
                # none of its calls was ever seen here: they may have been counted before this memory began
                found.append(_alias(trace_id, namer, f"trace:{trace_id}", []))
    for trace_id in here:
        if traces.of(trace_id).may_tell():
            found += _claimed(traces, trace_id)
    return found


def _namer_of(view: View, received_ns: int) -> Namer | None:
    node, span = view.node, view.span
    session = node.session or node.made_up
    if not (session or node.user or node.team):
        return None
    holds = view.role not in ("llm", "tool")
    return Namer(node.span_id, *stretch(span, received_ns), session, node.user, node.team, holds)


def _claimed(traces: Traces, trace_id: str) -> list[Alias]:
    """What is known by now of the calls of a trace that wait to hear whose they are."""
    trace = traces.of(trace_id)
    claimed: defaultdict[tuple[str, str], list[Open]] = defaultdict(list)
    namers: dict[str, Namer] = {}
    rest: list[Open] = []
    for call in trace.open:
        namer = _namer(traces, trace, trace_id, call)
        if namer is not None:
            namers[namer.span_id] = namer
            claimed[namer.span_id, call.session].append(call)
            call = _known(call, namer)
        if call.unnamed or call.no_user or call.no_team:
            rest.append(call)
    trace.open = rest
    return [_alias(trace_id, namers[by], session, calls) for (by, session), calls in claimed.items()]


def _namer(traces: Traces, trace: Trace, trace_id: str, call: Open) -> Namer | None:
    """The nearest span above that says something new of a call. Where a parent is missing, the shortest that was under way when
    the call began, since a span lasts longer than what is inside."""
    above = call.parent
    for node in traces.ancestors(trace_id, call.parent):
        namer = trace.namers.get(node.span_id)
        if namer is not None and _is_news(call, namer):
            return namer
        above = node.parent
    if not above:
        return None
    around = [
        n for n in trace.namers.values() if n.holds and n.from_ns <= call.start_ns <= n.to_ns and _is_news(call, n)
    ]
    return min(around, key=lambda namer: namer.to_ns - namer.from_ns, default=None)


def _is_news(call: Open, namer: Namer) -> bool:
    return bool(
        namer.span_id != call.span_id
        and ((namer.session and call.unnamed) or (namer.user and call.no_user) or (namer.team and call.no_team))
    )


def _known(call: Open, namer: Namer) -> Open:
    return call._replace(
        session=namer.session if call.unnamed and namer.session else call.session,
        unnamed=call.unnamed and not namer.session,
        no_user=call.no_user and not namer.user,
        no_team=call.no_team and not namer.team,
    )


def _alias(trace_id: str, namer: Namer, session: str, calls: Sequence[Open]) -> Alias:
    began = [call.start_ns for call in calls]
    owed = [call for call in calls if (namer.user and call.no_user) or (namer.team and call.no_team)]
    identity = exact_hash(" ".join([namer.span_id, session, *sorted(call.span_id for call in calls)]))
    return Alias(
        id=identity,
        trace_id=trace_id,
        session=session,
        into=namer.session if session == f"trace:{trace_id}" else "",
        # Where clocks differ, calls lie outside of the span that holds them: the way to their session holds for them, too.
        from_ns=min([namer.from_ns, *began]),
        to_ns=max([namer.to_ns, *began]),
        user=namer.user if any(call.no_user for call in owed) else "",
        team=namer.team if any(call.no_team for call in owed) else "",
        calls=sum(call.calls for call in owed),
        cost_nano_usd=sum(call.cost_nano_usd for call in owed),
        input_tokens=sum(call.input_tokens for call in owed),
        output_tokens=sum(call.output_tokens for call in owed),
    )
