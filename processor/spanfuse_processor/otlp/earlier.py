"""Calls related to those that were counted of earlier requests: a call goes where its other spans went."""

from __future__ import annotations

from spanfuse_processor.otlp.candidates import Candidate
from spanfuse_processor.otlp.late import remember
from spanfuse_processor.otlp.traces import Traces
from spanfuse_processor.otlp.twins import Followed, Twins
from spanfuse_schemas import Call


class Earlier:
    """What was counted lately, bounded.

    Args:
        traces: the spans around a call, and what was counted of their trace.
    """

    def __init__(self, traces: Traces) -> None:
        self._traces = traces
        self._twins = Twins()

    def follow(self, found: Candidate) -> Followed:
        """A call as it is to be counted, and what its span says of one that was counted before it."""
        call, trace = found.call, self._traces.of(found.call.trace_id)
        other = call.repeats or self._traces.model_above(call.trace_id, call.parent_span_id)
        other = trace.same.get(other, other)
        followed = self._twins.follow(found._replace(call=self._beside(call, other)))
        return followed._replace(waits=followed.waits or other in trace.counted)

    def _beside(self, call: Call, other: str) -> Call:
        """A call whose span, or another span of it, was counted under another session, since less was known then: it follows it
        there. Only there it is found to be the same, and what is moved from there must not be overtaken."""
        counted = self._traces.of(call.trace_id).counted
        session = counted.get(call.span_id) or counted.get(other)
        if session is None or session == call.session:
            return call
        source = "trace" if session == f"trace:{call.trace_id}" else "inherited"
        return call.model_copy(update={"session": session, "session_source": source})

    def remember(self, call: Call, *, waits: bool) -> None:
        """Remember a call of a span that is read for the first time, once all of its request has been followed.

        Args:
            waits: another span of it came in an earlier request, and waits to hear whose it is.
        """
        trace = self._traces.of(call.trace_id)
        trace.called = True
        trace.count(call.span_id, call.session)
        if not waits:
            remember(trace, call)
