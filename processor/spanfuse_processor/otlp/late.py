"""What a span says of calls that were counted before it came: parents end, and are sent, after their children.

Nothing waits for a parent. A call is counted at once under what is known of it, at worst under its trace, and remembered,
bounded; a span that names a session, a user or a team claims those that lie below it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from spanfuse_processor.otlp.span import Span
from spanfuse_processor.otlp.traces import MAX_OPEN, Node, Open, Trace, Traces
from spanfuse_schemas import Alias, Call


def remember(trace: Trace, call: Call) -> None:
    """Keep in mind a call that goes out, if anybody it belongs to is unknown."""
    trace.called = True
    unnamed = call.session_source == "trace"
    if not (unnamed or not call.user or not call.team) or not call.parent_span_id:
        return
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


def claims(traces: Traces, span: Span, node: Node) -> list[Alias]:
    """What a span says of the calls below it, by the session under which they were counted.

    Where no call of its trace was ever seen here, they may have been counted before this memory began: the span's session is told
    in any case.
    """
    trace = traces.of(span.trace_id)
    below: defaultdict[str, list[Open]] = defaultdict(list)
    rest: list[Open] = []
    for call in trace.open:
        news = (node.session and call.unnamed) or (node.user and call.no_user) or (node.team and call.no_team)
        if news and _is_below(traces, span, call):
            below[call.session].append(call)
            call = _known(call, node)
            if not (call.unnamed or call.no_user or call.no_team):
                continue
        rest.append(call)
    trace.open = rest
    if not trace.called and node.session:
        below.setdefault(f"trace:{span.trace_id}", [])
    return [_alias(span, node, session, calls) for session, calls in below.items()]


def _is_below(traces: Traces, span: Span, call: Open) -> bool:
    """By the parents that are known; where one is missing, by time, since a span lasts longer than what is inside."""
    above = call.parent
    for node in traces.ancestors(span.trace_id, call.parent):
        if node.span_id == span.span_id:
            return True
        above = node.parent
    return bool(above) and span.start_ns <= call.start_ns <= span.end_ns


def _known(call: Open, node: Node) -> Open:
    return call._replace(
        session=node.session if call.unnamed and node.session else call.session,
        unnamed=call.unnamed and not node.session,
        no_user=call.no_user and not node.user,
        no_team=call.no_team and not node.team,
    )


def _alias(span: Span, node: Node, session: str, calls: Iterable[Open]) -> Alias:
    owed = [call for call in calls if (node.user and call.no_user) or (node.team and call.no_team)]
    return Alias(
        trace_id=span.trace_id,
        span_id=span.span_id,
        session=session,
        into=node.session if session.startswith("trace:") else "",
        from_ns=span.start_ns,
        to_ns=span.end_ns,
        user=node.user if any(call.no_user for call in owed) else "",
        team=node.team if any(call.no_team for call in owed) else "",
        calls=sum(call.calls for call in owed),
        cost_nano_usd=sum(call.cost_nano_usd for call in owed),
        input_tokens=sum(call.input_tokens for call in owed),
        output_tokens=sum(call.output_tokens for call in owed),
    )
