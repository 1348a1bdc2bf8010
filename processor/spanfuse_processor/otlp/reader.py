"""One span, read by its dialect: what it is, whose it is, and the call that it would be if it stood alone."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final, NamedTuple

from spanfuse.steering import progress
from spanfuse_processor.otlp.candidates import Candidate
from spanfuse_processor.otlp.content import model_content, tool_content
from spanfuse_processor.otlp.cost import Costs, Pricing
from spanfuse_processor.otlp.dialects import dialect_of
from spanfuse_processor.otlp.dialects.dialect import Dialect, Role
from spanfuse_processor.otlp.dialects.identity import named
from spanfuse_processor.otlp.dialects.roles import role_of
from spanfuse_processor.otlp.failure import error_class, error_type
from spanfuse_processor.otlp.provider import provider_and_model
from spanfuse_processor.otlp.span import Span
from spanfuse_processor.otlp.times import times
from spanfuse_processor.otlp.traces import Node, Traces
from spanfuse_processor.otlp.usage import ending, finish_reason, ttft_ns
from spanfuse_processor.otlp.values import bounded, find, name, number
from spanfuse_processor.otlp.whose import Whose
from spanfuse_schemas import Call
from spanfuse_schemas.fingerprint import exact_hash

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


class View(NamedTuple):
    """A span and how it is read."""

    span: Span
    dialect: Dialect
    role: Role
    node: Node


class Reader:
    """Reads one span at a time.

    Args:
        prices: what a call costs where its span does not say.
        whose: reads whose a span is.
        traces: the spans above it, as far as they are known.
        counters: gets `agent`, `other` and `invalid` (no trace or span id), in spans, and what was repaired.
        turns: whether to measure how far a new user turn is from earlier ones, for `safety_drift`.
    """

    def __init__(self, prices: Pricing, whose: Whose, traces: Traces, counters: Counter[str], *, turns: bool) -> None:
        self._costs = Costs(prices, counters)
        self._whose, self._traces, self._counters, self._turns = whose, traces, counters, turns

    def view(self, span: Span) -> View | None:
        """What a span is and says of itself; none: it has no identity."""
        if not span.trace_id or not span.span_id:
            self._counters["invalid"] += 1
            return None
        dialect = dialect_of(span)
        role = role_of(span, dialect)
        if role in ("agent", "other"):
            self._counters[role] += 1
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
        return View(span, dialect, role, node)

    def candidate(self, view: View, received_ns: int) -> Candidate | None:
        """The call that a span would be alone; none: it is none. What is above it has to be known by now."""
        if view.role == "llm":
            return self._model_call(view, received_ns)
        return self._tool_call(view, received_ns) if view.role == "tool" else None

    def owner(self, view: View) -> dict[str, str]:
        """The fields of `Call` for whose it is: the span's own word, else the nearest ancestor's, else its process's."""
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

    def _model_call(self, view: View, received_ns: int) -> Candidate:
        span, dialect, _, _ = view
        content = model_content(span, dialect, self._counters, turns=self._turns)
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

    def _tool_call(self, view: View, received_ns: int) -> Candidate:
        span, dialect, _, _ = view
        error = error_type(span)
        content = tool_content(span, dialect, self._counters, bool(error))
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

    def _base(self, view: View, received_ns: int) -> dict[str, Any]:
        """Identity and times."""
        span, dialect, role, _ = view
        start, end = times(span, received_ns, self._counters)
        operation = name(span.attributes, dialect.operation).lower() or str(role)
        return {
            "trace_id": span.trace_id,
            "span_id": span.span_id,
            "parent_span_id": span.parent_span_id,
            "start_ns": start,
            "end_ns": end,
            "operation": _OPERATIONS.get(operation, operation),
            "progress": _progress(span),
            **self.owner(view),
        }


def _progress(span: Span) -> int | None:
    """What the agent says it has achieved."""
    said = number(span.attributes.get(progress.ATTRIBUTE))
    return int(said) if said is not None and 0 <= said < 2**53 else None


def _agent_span(span: Span, dialect: Dialect) -> str:
    """The name of the agent whose span it is."""
    own = dialect.agent_span
    if own is None:
        found = _AGENT_SPAN.fullmatch(span.name)
        return bounded(found[1] or found[2]) if found else ""
    if bounded(span.attributes.get(own.attribute)) != own.value:
        return ""
    return bounded(find(span.attributes, own.keys)) or bounded(span.name)
