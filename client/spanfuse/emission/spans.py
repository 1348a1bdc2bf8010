"""Spans of our own, with the extra `otel`: for agents that have no instrumentation, one for each model call and tool execution
that a Guard is told of. They say what ingest asks for, and fingerprints instead of content.

Beside another instrumentation they do no harm: its span of a call lies inside ours, and ingest counts the two once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from spanfuse.context import Identity
from spanfuse.fingerprints import of_call, state_tool

try:
    from opentelemetry import context as otel
    from opentelemetry import trace

    from spanfuse.otel import ATTRIBUTES
except ImportError as error:  # pragma: no cover  Proven in an interpreter without it.
    raise ImportError("spans of calls need the extra otel: pip install 'spanfuse[otel]'") from error

if TYPE_CHECKING:
    from spanfuse.calls.model_call import ModelCall
    from spanfuse.calls.tool_call import ToolCall


SCOPE: Final = "spanfuse"
"""Name of the instrumentation scope."""


class CallSpans:
    """A listener of a Guard (`Guard.listen`) that makes the spans.

    Args:
        provider: makes them; default: whichever is set when the first call is made. `spanfuse.instrument` sets one.
    """

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=provider)
        self._open: WeakKeyDictionary[object, trace.Span] = WeakKeyDictionary()
        self._outer: WeakKeyDictionary[object, otel.Context] = WeakKeyDictionary()

    def began(self, call: ModelCall) -> None:
        """A model call was admitted: its span begins, below the span at hand."""
        asked = call.asked
        self._open[call] = self._tracer.start_span(
            f"{asked.operation} {asked.model}".rstrip(),
            kind=trace.SpanKind.CLIENT,
            start_time=call.began_ns,
            attributes=_present(
                {
                    "gen_ai.operation.name": asked.operation,
                    "gen_ai.provider.name": asked.provider,
                    "gen_ai.request.model": asked.model,
                    **_names(call.who),
                }
            ),
        )

    def entered(self, call: ModelCall) -> None:
        """What runs now is the call: spans that start are inside it."""
        span = self._open.get(call)
        if span is not None:
            self._outer[call] = otel.get_current()
            otel.attach(trace.set_span_in_context(span))

    def left(self, call: ModelCall) -> None:
        """No more. A generator may be closed in another context than it began in: there is nothing to restore there."""
        outer, span = self._outer.pop(call, None), self._open.get(call)
        if outer is not None and trace.get_current_span() is span:
            otel.attach(outer)

    def ended(self, call: ModelCall) -> None:
        """It is over, and what came back is known."""
        span = self._open.pop(call, None)
        if span is None or not span.is_recording():
            return
        answer = call.answer
        if answer is not None:
            span.set_attributes(
                _present(
                    {
                        "gen_ai.response.model": answer.model,
                        "gen_ai.response.id": answer.response_id,
                        "gen_ai.usage.input_tokens": answer.input_tokens,
                        "gen_ai.usage.output_tokens": answer.output_tokens,
                        "gen_ai.usage.cache_read.input_tokens": answer.cache_read or None,
                        "gen_ai.usage.cache_creation.input_tokens": answer.cache_write or None,
                        "gen_ai.usage.reasoning.output_tokens": answer.reasoning or None,
                        "gen_ai.usage.cost": answer.cost_usd,
                        "gen_ai.response.finish_reasons": [answer.finish_reason] if answer.finish_reason else None,
                    }
                )
            )
        asked = call.asked
        messages = asked.messages if asked.messages is not None else asked.prompt
        span.set_attributes(of_call(messages, answer.reply if answer is not None else None, asked.system))
        _end(span, call.error, call.ended_ns)

    def tool_began(self, tool: ToolCall) -> None:
        """A tool is executed."""
        self._open[tool] = self._tracer.start_span(
            f"execute_tool {tool.name}",
            start_time=tool.began_ns,
            attributes=_present(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": tool.name,
                    "gen_ai.tool.call.id": tool.call_id,
                    **_names(tool.who),
                }
            ),
        )

    def tool_ended(self, tool: ToolCall) -> None:
        """It has brought something, or failed."""
        span = self._open.pop(tool, None)
        if span is not None and span.is_recording():
            state_tool(span, tool.name, tool.arguments, tool.brought, error=tool.error, call_id=tool.call_id)
            _end(span, tool.error, tool.ended_ns)


def _names(who: Identity) -> dict[str, Any]:
    return {key: getattr(who, name) for name, keys in ATTRIBUTES.items() for key in keys}


def _present(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in attributes.items() if value is not None and value != ""}


def _end(span: trace.Span, error: BaseException | None, ended_ns: int) -> None:
    if error is not None:
        kind = type(error)
        span.set_attribute("error.type", kind.__qualname__)
        if isinstance(status := getattr(error, "status_code", None), int):
            span.set_attribute("http.response.status_code", status)
        span.set_status(trace.StatusCode.ERROR)
    span.end(ended_ns)
