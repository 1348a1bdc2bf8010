"""What a sample of spans says, gathered span by span in bounded memory."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spanfuse.reading.messages import FINGERPRINT_ATTRIBUTE
from spanfuse_processor.core.guards import told_of
from spanfuse_processor.core.scopes.coverage import STEP_NS, spread
from spanfuse_processor.hosts.doctor.sampling import share_sampled
from spanfuse_processor.hosts.inspect import AGAIN
from spanfuse_processor.otlp.content import stated_prints
from spanfuse_processor.otlp.span import Span
from spanfuse_processor.otlp.times import MAX_AHEAD_NS
from spanfuse_processor.otlp.verdict import Verdict
from spanfuse_schemas import Call
from spanfuse_schemas.guard_report import GuardReport

MAX_KEYS: Final = 100_000
"""Sessions, traces, and span ids that are remembered; of more, the oldest are forgotten, and what they share with later spans
is not seen."""
MAX_VALUES: Final = 4
"""Users, services and partitions told apart for each of them."""
MAX_NAMES: Final = 20
"""Models and dialects told by name; further ones count together, as `*`."""
MAX_BEHIND_NS: Final = 3600 * 1_000_000_000
"""A span that is received so much later than it ended has a wrong clock, or was held back: exporters take seconds, those of
frozen functions minutes."""


@dataclass(slots=True)
class Shared:
    """What the calls of one session, or the spans of one trace, are spread over."""

    users: set[str] = field(default_factory=set)
    services: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    """Keys under which stated fingerprints were made."""
    partitions: set[int] = field(default_factory=set)
    calls: int = 0
    """Model calls."""
    inherits: bool = False
    """Whether a call takes its session from another span."""


class Known:
    """Values by key, the oldest forgotten where there are too many."""

    def __init__(self) -> None:
        self.values: OrderedDict[str, Shared] = OrderedDict()

    def of(self, key: str) -> Shared:
        """What is known of a key."""
        found = self.values.get(key)
        if found is None:
            found = self.values[key] = Shared()
            if len(self.values) > MAX_KEYS:
                self.values.popitem(last=False)
        return found


class Sample:
    """What was seen so far."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Spans, calls, and what is the matter with how many of them; see `checks`."""
        self.dialects: Counter[str] = Counter()
        self.models: Counter[str] = Counter()
        """Model calls without a price, by `provider/model`."""
        self.reasons: Counter[str] = Counter()
        """Spans that are neither a call nor come again, by why."""
        self.least_sampled = 1.0
        """The smallest share of traces that any sampler let through."""
        self.sessions = Known()
        self.traces = Known()
        self.guarded: Counter[int] = Counter()
        """Time step (`coverage.STEP_NS`) → model calls that Guards have let through."""
        self.seen: Counter[int] = Counter()
        """The same of model calls that were seen."""
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._reports: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._twins: OrderedDict[tuple[object, ...], None] = OrderedDict()

    def arrived(self, spans: Iterable[Span], received_ns: int | None, partition: int | None) -> None:
        """Note how the spans of one request came.

        Args:
            received_ns: when, nanoseconds since the Unix epoch; none: unknown.
            partition: on which partition of a topic.
        """
        for span in spans:
            self.counts["spans"] += 1
            if not span.span_id:
                continue
            self.counts["delivered_again"] += not _first(self._ids, f"{span.trace_id}{span.span_id}")
            if partition is not None:
                _note(self.traces.of(span.trace_id).partitions, partition)
            if received_ns is not None:
                self.counts["timed"] += 1
                self.counts["ahead"] += span.end_ns > received_ns + MAX_AHEAD_NS
                self.counts["behind"] += span.end_ns < received_ns - MAX_BEHIND_NS
            share = share_sampled(span)
            if share < 1:
                self.counts["sampled"] += 1
                self.least_sampled = min(self.least_sampled, share)

    def reported(self, report: GuardReport) -> None:
        """Note what a Guard has told; of one that comes twice once."""
        if not _first(self._reports, (report.source, report.seq)):
            return
        *_, (_, told) = told_of(report)
        for step, calls in spread(told):
            self.guarded[step] += calls
        self.counts["spans_dropped"] += report.spans_dropped

    def judged(self, verdict: Verdict) -> None:
        """Note what became of a span."""
        span, call = verdict.span, verdict.call
        if not verdict.counted:
            self._left(verdict)
        elif call is not None:
            self.counts["calls"] += 1
            _name(self.dialects, verdict.dialect)
            self._of_call(call)
            self._belongs(span, call)

    def _left(self, verdict: Verdict) -> None:
        call = verdict.call
        if verdict.reason.startswith(AGAIN):
            return
        if call is None:
            self.reasons[verdict.reason] += 1
        else:
            self.counts["twins" if call.kind == "llm" and self._is_twin(call) else "nested"] += 1

    def _is_twin(self, call: Call) -> bool:
        """Whether it differs from a span before in its id alone, as far as can be told."""
        tokens = call.tokens
        twin = (call.trace_id, call.parent_span_id, call.start_ns, call.end_ns, call.model, tokens.input, tokens.output)
        return not _first(self._twins, twin)

    def _of_call(self, call: Call) -> None:
        counts = self.counts
        counts[f"session_{call.session_source}"] += 1
        counts["no_agent"] += not call.agent
        counts["structure"] += call.content == "structure"
        counts["stated"] += call.content == "fingerprint"
        if call.kind == "tool":
            counts["tools"] += 1
            return
        counts["llm"] += 1
        self.seen[call.end_ns // STEP_NS] += 1
        counts["twins_counted"] += self._is_twin(call)
        counts["estimated"] += call.usage_estimated
        if call.cost_source in ("fallback", "unknown") and not call.error_type:
            counts["unpriced"] += 1
            _name(self.models, f"{call.provider}/{call.model}" if call.model else "no model is named")

    def _belongs(self, span: Span, call: Call) -> None:
        session, trace = self.sessions.of(call.session), self.traces.of(call.trace_id)
        for known in (session, trace):
            known.calls += call.kind == "llm"
            known.inherits |= call.session_source == "inherited"
        if call.session_source != "trace":
            _note(session.users, call.user)
            _note(session.services, _text(span.resource, "service.name"))
        if FINGERPRINT_ATTRIBUTE in span.attributes:
            stated = stated_prints(span, Counter())
            if stated is not None:
                _note(session.keys, stated.key or "one of its own")
        session.partitions |= trace.partitions


def _first(known: OrderedDict[Any, None], key: object) -> bool:
    """Whether a key is seen for the first time, as far as is remembered."""
    if key in known:
        return False
    known[key] = None
    if len(known) > MAX_KEYS:
        known.popitem(last=False)
    return True


def _note(known: set[Any], value: object) -> None:
    if value != "" and len(known) < MAX_VALUES:
        known.add(value)


def _name(counter: Counter[str], name: str) -> None:
    counter[name if name in counter or len(counter) < MAX_NAMES else "*"] += 1


def _text(attributes: Mapping[str, Any], key: str) -> str:
    found = attributes.get(key)
    return found if isinstance(found, str) else ""
