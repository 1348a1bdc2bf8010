"""What the spans of a trace say of one another, remembered for the batches that follow."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterator
from typing import Final, NamedTuple

from spanfuse_processor.otlp.dialects.dialect import Role

MAX_SPANS: Final = 65_536
"""Spans remembered over all traces; the traces that were idle longest are forgotten first."""
MAX_SPANS_PER_TRACE: Final = 8_192
"""Spans remembered of one trace; more are not."""
MAX_OPEN: Final = 256
"""Calls of a trace that wait to hear whose they are; of more, the oldest do not."""
MAX_NAMERS: Final = 256
"""Spans of a trace remembered that name somebody; of more, the oldest is not."""
MAX_HOPS: Final = 64
"""Ancestors looked at."""


class Node(NamedTuple):
    """A span as an ancestor."""

    span_id: str
    parent: str
    role: Role
    session: str = ""
    user: str = ""
    team: str = ""
    agent: str = ""
    made_up: str = ""
    """A session that the library itself may have made up: it holds where nobody names one."""


class Open(NamedTuple):
    """A call that was counted while somebody it belongs to was unknown."""

    span_id: str
    parent: str
    start_ns: int
    session: str
    """Under which it was counted."""
    unnamed: bool
    """Its session is unknown."""
    no_user: bool
    no_team: bool
    cost_nano_usd: int
    input_tokens: int
    output_tokens: int
    calls: int
    """1 for a model call, 0 for a tool execution."""


class Namer(NamedTuple):
    """A span that says of itself whose it is."""

    span_id: str
    from_ns: int
    to_ns: int
    session: str
    user: str
    team: str
    holds: bool
    """Whether it may hold others: no tool, no model call."""


class Trace:
    """What is remembered of one trace."""

    __slots__ = ("called", "counted", "inside", "namers", "nodes", "open", "same", "says")

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.inside: dict[str, str] = {}
        """Span → a model span below it, with neither an agent nor a tool between."""
        self.same: dict[str, str] = {}
        """Model span → the one that was counted instead of it, since one request told of both."""
        self.namers: dict[str, Namer] = {}
        self.says = False, False, False
        """Whether any of them names a session, a user, a team."""
        self.open: list[Open] = []
        self.counted: dict[str, str] = {}
        """Call → session under which it was counted. What is sent again, or by another span of the call, goes the same way."""
        self.called = False
        """Whether any call of it has been seen here."""

    def name(self, namer: Namer) -> None:
        """Remember whom a span names."""
        self.namers[namer.span_id] = namer
        session, user, team = self.says
        self.says = session or bool(namer.session), user or bool(namer.user), team or bool(namer.team)
        if len(self.namers) > MAX_NAMERS:
            del self.namers[next(iter(self.namers))]

    def count(self, span_id: str, session: str) -> None:
        """Remember under which session a call was counted."""
        if len(self.counted) < MAX_SPANS_PER_TRACE:
            self.counted[span_id] = session

    def stands(self, span_id: str, counted: str) -> None:
        """Remember which span was counted instead of one."""
        if len(self.same) < MAX_SPANS_PER_TRACE:
            self.same[span_id] = counted

    def may_tell(self) -> bool:
        """Whether something is known of a kind that a call lacks."""
        session, user, team = self.says
        return any((c.unnamed and session) or (c.no_user and user) or (c.no_team and team) for c in self.open)


class Traces:
    """Spans of recent traces by id, bounded."""

    def __init__(self, max_spans: int = MAX_SPANS) -> None:
        self._max = max_spans
        self._spans = 0
        self._traces: OrderedDict[str, Trace] = OrderedDict()

    def __len__(self) -> int:
        return self._spans

    def add(self, trace_id: str, node: Node) -> bool:
        """Remember a span, and forget idle traces if there are too many.

        Returns:
            Whether it is new; one that is delivered or read again is not.
        """
        trace = self._traces.get(trace_id)
        if trace is None:
            trace = self._traces[trace_id] = Trace()
        else:
            self._traces.move_to_end(trace_id)
        new = node.span_id not in trace.nodes
        if new:
            if len(trace.nodes) >= MAX_SPANS_PER_TRACE:
                return True
            self._spans += 1
        trace.nodes[node.span_id] = node
        if node.parent:
            _tell_above(trace, node)
        while self._spans > self._max and len(self._traces) > 1:
            _, forgotten = self._traces.popitem(last=False)
            self._spans -= len(forgotten.nodes)
        return new

    def of(self, trace_id: str) -> Trace:
        """What is known of a trace; a new one if nothing is, or all of it was forgotten."""
        return self._traces.get(trace_id) or Trace()

    def ancestors(self, trace_id: str, parent: str) -> Iterator[Node]:
        """The ancestors that are known, nearest first, up to the first that is not."""
        trace = self._traces.get(trace_id)
        if trace is None:
            return
        nodes = trace.nodes
        for _ in range(MAX_HOPS):
            node = nodes.get(parent)
            if node is None:
                return
            yield node
            parent = node.parent

    def inside(self, trace_id: str, span_id: str, passed: Container[str]) -> str:
        """Id of the counted model span below a span, with neither an agent nor a tool between; empty: none is known.

        Args:
            passed: model spans that are looked into as well.
        """
        trace = self.of(trace_id)
        for _ in range(MAX_HOPS):
            span_id = trace.inside.get(span_id, "")
            if span_id not in passed:
                break
        return trace.same.get(span_id, span_id)

    def model_above(self, trace_id: str, parent: str) -> str:
        """Id of the nearest model span above a span, with neither an agent nor a tool between; empty: none is known."""
        for node in self.ancestors(trace_id, parent):
            if node.role == "llm":
                return node.span_id
            if node.role != "other":
                break
        return ""


def _tell_above(trace: Trace, node: Node) -> None:
    """Let the spans above know of a model span: they come after it, so each passes on what it has heard."""
    model = node.span_id if node.role == "llm" else trace.inside.get(node.span_id, "")
    hops = 0
    while model and node.parent and node.role in ("llm", "other") and hops < MAX_HOPS:
        if len(trace.inside) >= MAX_SPANS_PER_TRACE and node.parent not in trace.inside:
            return
        trace.inside[node.parent] = model
        above = trace.nodes.get(node.parent)
        if above is None or above.role != "other":
            return
        node, hops = above, hops + 1
