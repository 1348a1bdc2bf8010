"""Spans to calls: content-free, priced, each with the session that it belongs to. The road of a request:

`logs.Joiner` adds content that came as log records → `reader.Reader` reads each span by its dialect → `request.Requests`
finds which of them are one call (`nested`: `pairs` of `candidates`) → `late` tells whose earlier calls are →
`earlier.Earlier` sends a call where its other spans went.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from spanfuse_processor.otlp.cost import Pricing
from spanfuse_processor.otlp.earlier import Earlier
from spanfuse_processor.otlp.late import claims
from spanfuse_processor.otlp.logs import Joiner
from spanfuse_processor.otlp.reader import Reader
from spanfuse_processor.otlp.reports import is_report, report_of
from spanfuse_processor.otlp.request import Request, Requests
from spanfuse_processor.otlp.span import LogRecord, Span
from spanfuse_processor.otlp.traces import Traces
from spanfuse_processor.otlp.verdict import Verdict, verdict
from spanfuse_processor.otlp.whose import KNOWN, Whose
from spanfuse_processor.telemetry import OWN_SCOPES
from spanfuse_schemas import Alias, Call, CallBatch
from spanfuse_schemas.guard_report import GuardReport


class Normaliser:
    """Makes calls of spans. It remembers, bounded, what ancestors in earlier batches said of session, user, team and agent.

    Args:
        prices: what a call costs where its span does not say.
        whose: reads whose a span is.
        turns: whether to measure how far a new user turn is from earlier ones, for `safety_drift`.
    """

    def __init__(self, prices: Pricing, whose: Whose = KNOWN, *, turns: bool = True) -> None:
        self.counters: Counter[str] = Counter()
        """Spans that made no call, by reason (`agent`, `other`, `invalid`, `nested`, `failed`), and what was repaired."""
        self._traces = Traces()
        self._joiner = Joiner(self.counters)
        self._reader = Reader(prices, whose, self._traces, self.counters, turns=turns)
        self._requests = Requests(self._reader, self._traces, self.counters)
        self._earlier = Earlier(self._traces)

    def logs(self, records: Iterable[LogRecord], received_ns: int) -> CallBatch:
        """The calls that were counted without their content, which has now come as log records, once more and with it; and
        what Guards report."""
        records = list(records)
        told = [record for record in records if is_report(record)]
        found = self._joiner.logs((r for r in records if not is_report(r)) if told else records, received_ns)
        batch = self.batch(found, received_ns) if found else CallBatch()
        return batch.model_copy(update={"reports": self._reports(told, received_ns)}) if told else batch

    def _reports(self, records: Iterable[LogRecord], received_ns: int) -> tuple[GuardReport, ...]:
        read = [report_of(record, received_ns) for record in records]
        if unreadable := read.count(None):
            self.counters["reports_unreadable"] += unreadable
        return tuple(report for report in read if report is not None)

    def end(self) -> CallBatch:
        """As `logs`, when nothing more will come."""
        found = self._joiner.end()
        return self.batch(found, max((span.end_ns for span in found), default=0))

    def batch(self, spans: Iterable[Span], received_ns: int) -> CallBatch:
        """The calls among the spans of one request, in the order of their ends, and what the spans say of earlier calls.

        Args:
            received_ns: when they were received, nanoseconds since the Unix epoch.
        """
        request = self._requests.read(self._joiner.spans(self._others(spans), received_ns), received_ns)
        self._want_content(request, received_ns)
        new = [view for view in request.views if view is not None and view.span.span_id in request.new]
        aliases = claims(self._traces, new, received_ns)
        followed = [self._earlier.follow(found) for found in request.kept.values()]
        for call, alias, waits in followed:
            if call.span_id in request.new:
                self._earlier.remember(call, waits=waits)
            if alias is not None:
                aliases.append(alias)
        return _batch([call for call, _, _ in followed], aliases)

    def _others(self, spans: Iterable[Span]) -> list[Span]:
        """Without those of ours: such as detections left as would speak for the calls of their trace."""
        given = [*spans]
        found = [span for span in given if span.scope not in OWN_SCOPES]
        if own := len(given) - len(found):
            self.counters["own"] += own
        return found

    def explain(self, spans: Iterable[Span], received_ns: int) -> list[Verdict]:
        """What becomes of each span of one request, and why, in their order; for people who want to know."""
        spans = list(spans)
        request = self._requests.read(spans, received_ns)
        return [verdict(at, span, request, self._reader) for at, span in enumerate(spans)]

    def _want_content(self, request: Request, received_ns: int) -> None:
        """Keep the spans of calls that have no content: it may still come as log records."""
        for at, found in request.kept.items():
            if found.call.content == "structure" and (view := request.views[at]) is not None:
                self._joiner.wants(view.span, received_ns)


def _batch(calls: list[Call], aliases: list[Alias]) -> CallBatch:
    calls.sort(key=lambda call: (call.end_ns, call.start_ns, call.span_id))
    return CallBatch.model_construct(calls=tuple(calls), resets=(), aliases=tuple(aliases), moved=())
