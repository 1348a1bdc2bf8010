"""What the spans of a trace say of their descendants, remembered for the batches that follow."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple

from spanfuse_processor.otlp.dialects.dialect import Role

MAX_SPANS: Final = 65_536
"""Spans remembered over all traces; the traces that were idle longest are forgotten first."""
MAX_SPANS_PER_TRACE: Final = 8_192
"""Spans remembered of one trace; more are not."""
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


class Traces:
    """Spans of recent traces by id, bounded."""

    def __init__(self, max_spans: int = MAX_SPANS) -> None:
        self._max = max_spans
        self._spans = 0
        self._traces: OrderedDict[str, dict[str, Node]] = OrderedDict()

    def __len__(self) -> int:
        return self._spans

    def add(self, trace_id: str, node: Node) -> None:
        """Remember a span, and forget idle traces if there are too many."""
        nodes = self._traces.get(trace_id)
        if nodes is None:
            nodes = self._traces[trace_id] = {}
        else:
            self._traces.move_to_end(trace_id)
        if node.span_id not in nodes:
            if len(nodes) >= MAX_SPANS_PER_TRACE:
                return
            self._spans += 1
        nodes[node.span_id] = node
        while self._spans > self._max and len(self._traces) > 1:
            _, forgotten = self._traces.popitem(last=False)
            self._spans -= len(forgotten)

    def ancestors(self, trace_id: str, parent: str) -> Iterator[Node]:
        """The ancestors that are known, nearest first, up to the first that is not."""
        nodes = self._traces.get(trace_id, {})
        for _ in range(MAX_HOPS):
            node = nodes.get(parent)
            if node is None:
                return
            yield node
            parent = node.parent
