"""The spans of one request, read and related to one another: which of them are calls, and which repeat another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from spanfuse_processor.otlp.candidates import Candidate
from spanfuse_processor.otlp.nested import seen_once
from spanfuse_processor.otlp.reader import Reader, View
from spanfuse_processor.otlp.span import Span
from spanfuse_processor.otlp.traces import Traces
from spanfuse_processor.otlp.unforeseen import Unforeseen


class Request(NamedTuple):
    """The spans of one request, read; places are those of the spans."""

    views: list[View | None]
    new: set[str]
    """Ids of spans that are read for the first time."""
    made: list[Candidate | None]
    """What each would be alone."""
    kept: dict[int, Candidate]
    """The calls."""
    repeats: dict[int, int]
    """Place of a span → place of the call that it repeats."""


class Requests:
    """Reads requests.

    Args:
        reader: reads one span.
        traces: learns every span before any call is made of one, so that the order within a request does not matter.
        counters: gets `nested` (spans that repeat another) and `failed` (that cannot be read).
    """

    def __init__(self, reader: Reader, traces: Traces, counters: Counter[str]) -> None:
        self._reader, self._traces, self._counters = reader, traces, counters
        self._unforeseen = Unforeseen(counters)

    def read(self, spans: Iterable[Span], received_ns: int) -> Request:
        """All of one request.

        Args:
            received_ns: when it was received, nanoseconds since the Unix epoch.
        """
        tried = self._unforeseen.tried
        views = [tried(self._reader.view, span) for span in spans]
        here = [view for view in views if view is not None]
        new = {view.node.span_id for view in here if self._traces.add(view.span.trace_id, view.node)}
        made = [view and tried(self._reader.candidate, view, received_ns) for view in views]
        kept, repeats = self._seen_once(made)
        self._say_what_repeats(kept, repeats, made)
        return Request(views, new, made, kept, repeats)

    def _seen_once(self, made: list[Candidate | None]) -> tuple[dict[int, Candidate], dict[int, int]]:
        places = [at for at, candidate in enumerate(made) if candidate is not None]
        kept, repeats = seen_once([candidate for candidate in made if candidate is not None], self._traces)
        if repeats:
            self._counters["nested"] += len(repeats)
        return (
            {places[at]: candidate for at, candidate in kept.items()},
            {places[at]: places[stays] for at, stays in repeats.items()},
        )

    def _say_what_repeats(
        self, kept: dict[int, Candidate], repeats: dict[int, int], made: list[Candidate | None]
    ) -> None:
        """Tell of each model span whether one inside it, or inside one that repeats it here, came in an earlier request."""
        gone = {c.call.span_id: kept[stays].call for at, stays in repeats.items() if (c := made[at]) is not None}
        others = {found.call.span_id for found in kept.values()}
        for at, found in kept.items():
            call = found.call
            inner = self._traces.inside(call.trace_id, call.span_id, gone) if call.kind == "llm" else ""
            if inner and inner not in others:
                kept[at] = found._replace(call=call.model_copy(update={"repeats": inner}))
        for span_id, call in gone.items():
            self._traces.of(call.trace_id).stands(span_id, call.span_id)
