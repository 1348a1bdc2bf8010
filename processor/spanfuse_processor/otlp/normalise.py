"""Spans to calls: content-free, priced, each with the session that it belongs to."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from spanfuse_processor.otlp.content import model_content, tool_content
from spanfuse_processor.otlp.cost import Costs, Pricing
from spanfuse_processor.otlp.dialects import dialect_of
from spanfuse_processor.otlp.dialects.dialect import Dialect, Role
from spanfuse_processor.otlp.dialects.identity import named
from spanfuse_processor.otlp.dialects.roles import role_of
from spanfuse_processor.otlp.failure import error_class, error_type
from spanfuse_processor.otlp.late import claims, remember, told
from spanfuse_processor.otlp.logs import Joiner
from spanfuse_processor.otlp.nested import Candidate, seen_once
from spanfuse_processor.otlp.provider import provider_and_model
from spanfuse_processor.otlp.span import LogRecord, Span
from spanfuse_processor.otlp.traces import Namer, Node, Traces
from spanfuse_processor.otlp.twins import Twins
from spanfuse_processor.otlp.usage import ending, finish_reason, ttft_ns
from spanfuse_processor.otlp.values import bounded, find, name, number
from spanfuse_processor.otlp.verdict import Verdict
from spanfuse_processor.otlp.whose import KNOWN, Whose
from spanfuse_schemas import Alias, Call, CallBatch
from spanfuse_schemas.fingerprint import exact_hash

logger = logging.getLogger(__name__)

MAX_FAILURES: Final = 32
"""Places in the code whose failures are logged."""
MAX_AHEAD_NS: Final = 5 * 60 * 1_000_000_000
"""A span that ends later than this after its receipt has a wrong clock: it is moved to end with its receipt."""
MAX_LASTING_NS: Final = 24 * 3600 * 1_000_000_000
"""No call lasts longer: an earlier start is none, and would count as the length of a session."""

_AGENT_SPAN: Final = re.compile(r"invoke_agent (.+)|agent_run \[(.+)\]")
"""Names of spans that name their agent: of the conventions, and of older versions of Google's ADK."""
_OPERATIONS: Final = {
    "llm": "chat",
    "generation": "chat",
    "acompletion": "chat",
    "llm_call": "chat",
    "embedding": "embeddings",
    "completion": "text_completion",
    "tool": "execute_tool",
}


P = ParamSpec("P")
T = TypeVar("T")


class _View(NamedTuple):
    """A span and how it is read."""

    span: Span
    dialect: Dialect
    role: Role
    node: Node


class _Read(NamedTuple):
    """The spans of one request, read; places are those of the spans."""

    views: list[_View | None]
    new: set[str]
    """Ids of spans that are read for the first time."""
    made: list[Candidate | None]
    """What each would be alone."""
    kept: dict[int, Candidate]
    """The calls."""
    repeats: dict[int, int]
    """Place of a span → place of the call that it repeats."""


_NO_CALL: Final[Mapping[str, str]] = {
    "agent": "a span of an agent, chain or workflow: it only repeats what its calls sum up to",
    "other": "no model call and no tool execution",
}


def _progress(span: Span) -> int | None:
    """What the agent says it has achieved."""
    said = number(span.attributes.get("spanfuse.progress"))
    return int(said) if said is not None and 0 <= said < 2**53 else None


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
        self._failures: set[str] = set()
        self._costs = Costs(prices, self.counters)
        self._whose, self._turns = whose, turns
        self._traces = Traces()
        self._twins = Twins()
        self._joiner = Joiner(self.counters)

    def logs(self, records: Iterable[LogRecord], received_ns: int) -> CallBatch:
        """The calls that were counted without their content, which has now come as log records, once more and with it."""
        found = self._joiner.logs(records, received_ns)
        return self.batch(found, received_ns) if found else CallBatch()

    def end(self) -> CallBatch:
        """As `logs`, when nothing more will come."""
        found = self._joiner.end()
        return self.batch(found, max((span.end_ns for span in found), default=0))

    def batch(self, spans: Iterable[Span], received_ns: int) -> CallBatch:
        """The calls among the spans of one request, in the order of their ends, and what the spans say of earlier calls.

        Args:
            received_ns: when they were received, nanoseconds since the Unix epoch.
        """
        read = self._read(self._joiner.spans([*spans], received_ns), received_ns)
        for at, found in read.kept.items():
            if found.call.content == "structure" and (view := read.views[at]) is not None:
                self._joiner.wants(view.span, received_ns)
        aliases = self._aliases(read, received_ns)
        calls: list[Call] = []
        for found in read.kept.values():
            call = found.call
            other = call.repeats or self._traces.model_above(call.trace_id, call.parent_span_id)
            call, alias, waits = self._twins.follow(found._replace(call=self._beside(call, other)))
            calls.append(call)
            if alias is not None:
                aliases.append(alias)
            if call.span_id in read.new:
                self._remember(call, waits or bool(other))
        calls.sort(key=lambda call: (call.end_ns, call.start_ns, call.span_id))
        return CallBatch.model_construct(calls=tuple(calls), resets=(), aliases=tuple(aliases), moved=())

    def explain(self, spans: Iterable[Span], received_ns: int) -> list[Verdict]:
        """What becomes of each span of one request, and why, in their order; for people who want to know."""
        spans = list(spans)
        read = self._read(spans, received_ns)
        return [
            self._verdict(span, view, at, read) for at, (span, view) in enumerate(zip(spans, read.views, strict=True))
        ]

    def _read(self, spans: Iterable[Span], received_ns: int) -> _Read:
        views = [self._tried(self._view, span) for span in spans]
        here = [view for view in views if view is not None]
        new = {view.node.span_id for view in here if self._traces.add(view.span.trace_id, view.node)}
        made = [view and self._tried(self._candidate, view, received_ns) for view in views]
        places = [at for at, candidate in enumerate(made) if candidate is not None]
        kept, repeats = seen_once([candidate for candidate in made if candidate is not None], self._traces)
        if repeats:
            self.counters["nested"] += len(repeats)
        read = _Read(
            views,
            new,
            made,
            {places[at]: c for at, c in kept.items()},
            {places[at]: places[stays] for at, stays in repeats.items()},
        )
        self._say_what_repeats(read)
        return read

    def _say_what_repeats(self, read: _Read) -> None:
        """Tell of each model span whether one inside it came in an earlier request."""
        here: set[str] | None = None
        for at, found in read.kept.items():
            call = found.call
            inner = self._traces.of(call.trace_id).inside.get(call.span_id) if call.kind == "llm" else None
            if inner is not None:
                here = here or {c.call.span_id for c in read.made if c is not None}
                if inner not in here:
                    read.kept[at] = found._replace(call=call.model_copy(update={"repeats": inner}))

    def _remember(self, call: Call, waits: bool) -> None:
        trace = self._traces.of(call.trace_id)
        trace.called = True
        trace.count(call.span_id, call.session)
        if not waits:
            remember(trace, call)

    def _beside(self, call: Call, other: str) -> Call:
        """A call whose span, or another span of it, was counted under another session, since less was known then: it follows it
        there. Only there it is found to be the same, and what is moved from there must not be overtaken."""
        counted = self._traces.of(call.trace_id).counted
        session = counted.get(call.span_id) or counted.get(other)
        if session is None or session == call.session:
            return call
        source = "trace" if session == f"trace:{call.trace_id}" else "inherited"
        return call.model_copy(update={"session": session, "session_source": source})

    def _verdict(self, span: Span, view: _View | None, at: int, read: _Read) -> Verdict:
        if view is None:
            return Verdict(span, "", "other", None, False, "it has no trace or span id, or cannot be read", None)
        kept, made = read.kept.get(at), read.made[at]
        who = self._identity(view)
        if kept is not None:  # with what another span of the call knows
            who = {key: getattr(kept.call, key) for key in who}
        found = kept or made
        if made is None:
            reason = _NO_CALL.get(view.role, "it cannot be read")
        elif kept is None:
            reason = f"repeats span {read.kept[read.repeats[at]].call.span_id}"
        else:
            reason = "model call" if view.role == "llm" else "tool execution"
        call = found.call if found is not None else None
        return Verdict(span, view.dialect.name, view.role, view.node, kept is not None, reason, call, **who)

    def _view(self, span: Span) -> _View | None:
        if not span.trace_id or not span.span_id:
            self.counters["invalid"] += 1
            return None
        dialect = dialect_of(span)
        role = role_of(span, dialect)
        if role in ("agent", "other"):
            self.counters[role] += 1
        own = self._whose.of_span(span.attributes, dialect, span.resource)
        node = Node(
            span.span_id,
            span.parent_span_id,
            role,
            own.session,
            own.user,
            own.team,
            own.agent or (named(_agent_span(span, dialect)) if role == "agent" else ""),
            own.made_up,
        )
        return _View(span, dialect, role, node)

    def _aliases(self, read: _Read, received_ns: int) -> list[Alias]:
        """What the spans of a request say of calls that were counted before they came."""
        found: list[Alias] = []
        traces: set[str] = set()
        for view in read.views:
            if view is None or view.span.span_id not in read.new:
                continue
            node, span = view.node, view.span
            traces.add(span.trace_id)
            session = node.session or node.made_up
            if session or node.user or node.team:
                holds = view.role not in ("llm", "tool")
                namer = Namer(node.span_id, *_stretch(span, received_ns), session, node.user, node.team, holds)
                trace = self._traces.of(span.trace_id)
                trace.name(namer)
                if holds and session and not trace.called:
                    found.append(told(span.trace_id, namer))
        for trace_id in traces:
            if self._traces.of(trace_id).may_tell():
                found += claims(self._traces, trace_id)
        return found

    def _candidate(self, view: _View, received_ns: int) -> Candidate | None:
        if view.role == "llm":
            return self._model_call(view, received_ns)
        return self._tool_call(view, received_ns) if view.role == "tool" else None

    def _tried(self, read: Callable[P, T | None], *args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return read(*args, **kwargs)
        except Exception as error:  # one span that no reader foresaw must not take its batch with it
            self._failed(error)
            return None

    def _failed(self, error: Exception) -> None:
        """Count a span that could not be read; each place where that happens is logged once, without any content."""
        self.counters["failed"] += 1
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "?"
        if place not in self._failures and len(self._failures) < MAX_FAILURES:
            self._failures.add(place)
            logger.error("spans that raise %s at %s are dropped and counted as failed", type(error).__name__, place)

    def _model_call(self, view: _View, received_ns: int) -> Candidate:
        span, dialect, _, _ = view
        content = model_content(span, dialect, self.counters, turns=self._turns)
        error = error_type(span)
        provider, model = provider_and_model(span, dialect)
        base = self._base(view, received_ns)
        finish = "" if error else finish_reason(span, dialect, content.reply)
        ended = ending(span, error, finish)
        response_id = name(span.attributes, dialect.response_id)
        call = Call.made(
            kind="llm",
            **base,
            response=exact_hash(response_id) if response_id else "",
            provider=provider,
            model=model,
            finish_reason=finish,
            error_type=error,
            error_class=error_class(span, error) if error else "",
            ttft_ns=ttft_ns(span, dialect),
            **self._costs.of(span, dialect, content, ended, (provider, model), base["end_ns"]),
            **content.fields(),
        )
        return Candidate(call, span.scope, response_id)

    def _tool_call(self, view: _View, received_ns: int) -> Candidate:
        span, dialect, _, _ = view
        error = error_type(span)
        content = tool_content(span, dialect, self.counters, bool(error))
        if content.prints.failed and not error:
            error = "error"
        call = Call.made(
            kind="tool",
            **self._base(view, received_ns),
            error_type=error,
            error_class="tool" if error else "",
            **content.fields(),
        )
        return Candidate(call, span.scope, "")

    def _base(self, view: _View, received_ns: int) -> dict[str, Any]:
        """Identity and times."""
        span, dialect, role, _ = view
        start, end = self._times(span, received_ns)
        operation = name(span.attributes, dialect.operation).lower() or str(role)
        return {
            "trace_id": span.trace_id,
            "span_id": span.span_id,
            "parent_span_id": span.parent_span_id,
            "start_ns": start,
            "end_ns": end,
            "operation": _OPERATIONS.get(operation, operation),
            "progress": _progress(span),
            **self._identity(view),
        }

    def _times(self, span: Span, received_ns: int) -> tuple[int, int]:
        end = next((at for at in (span.end_ns, span.start_ns, received_ns) if at > 0), 0)
        start = span.start_ns if span.start_ns > 0 else end
        if not end - MAX_LASTING_NS <= start <= end:
            self.counters["start_invalid"] += 1
            start = end
        if end > received_ns + MAX_AHEAD_NS:
            self.counters["clamped"] += 1
        return _received(start, end, received_ns)

    def _identity(self, view: _View) -> dict[str, str]:
        """Session, user, team and agent: the span's own, else the nearest ancestor's, else those of its process."""
        span, node = view.span, view.node
        session, user, team, agent, made_up = node.session, node.user, node.team, node.agent, node.made_up
        if not (session and user and team and agent):
            for above in self._traces.ancestors(span.trace_id, node.parent):
                session, user, team = session or above.session, user or above.user, team or above.team
                agent = agent or (above.agent if above.role in ("agent", "llm") else "")
                made_up = made_up or above.made_up
        process = self._whose.of_process(span.resource)
        session = session or made_up or process.session
        source = (
            "explicit" if session and session in (node.session, node.made_up) else "inherited" if session else "trace"
        )
        return {
            "session": session or f"trace:{span.trace_id}",
            "session_source": source,
            "user": user or process.user,
            "team": team or process.team,
            "agent": agent or process.agent,
        }


def _received(start: int, end: int, received_ns: int) -> tuple[int, int]:
    """Times of a span, moved to end with its receipt if its clock is wrong."""
    if end > received_ns + MAX_AHEAD_NS:
        return max(0, received_ns - (end - start)), received_ns
    return start, end


def _stretch(span: Span, received_ns: int) -> tuple[int, int]:
    """When a span that holds others was under way: however long, and from ever if it does not say since when."""
    end = span.end_ns if span.end_ns > 0 else received_ns
    return _received(max(0, min(span.start_ns, end)), end, received_ns)


def _agent_span(span: Span, dialect: Dialect) -> str:
    own = dialect.agent_span
    if own is None:
        named = _AGENT_SPAN.fullmatch(span.name)
        return bounded(named[1] or named[2]) if named else ""
    if bounded(span.attributes.get(own.attribute)) != own.value:
        return ""
    return bounded(find(span.attributes, own.keys)) or bounded(span.name)
