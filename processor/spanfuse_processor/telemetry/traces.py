"""Spans of the processor's own work. Where none are wanted, a piece of work costs two calls of a method that does nothing.

They are told apart by their scope (`SELF_SCOPE`): ingest takes none of them for a call, and what brings nothing else makes
no span in its turn, so that a processor whose traces come back to it comes to rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol

from spanfuse_processor.telemetry.counters import SELF_SCOPE

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.trace import Span, SpanKind, Tracer
    from opentelemetry.util.types import AttributeValue

    from spanfuse_processor.config.telemetry import Traces as Settings
    from spanfuse_processor.telemetry.export import Outcomes


class Work(Protocol):
    """A piece of work, while it is done."""

    def __enter__(self) -> Work: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def tell(self, name: str = "", attributes: Mapping[str, AttributeValue] | None = None) -> None:
        """What it turns out to be."""

    def drop(self) -> None:
        """It is not worth a span."""


class _Untold:
    """Work of which nobody is told."""

    def __enter__(self) -> _Untold:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def tell(self, name: str = "", attributes: Mapping[str, AttributeValue] | None = None) -> None:
        pass

    def drop(self) -> None:
        pass


_UNTOLD: Final = _Untold()


class _Told:
    """Work that is a span. Of an error it says the type: its text may quote what came."""

    __slots__ = ("_dropped", "_span", "_token")

    def __init__(self, span: Span) -> None:
        self._span, self._dropped = span, False

    def __enter__(self) -> _Told:
        from opentelemetry.context import attach
        from opentelemetry.trace import set_span_in_context

        self._token: Token[Context] = attach(set_span_in_context(self._span))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        from opentelemetry.context import detach
        from opentelemetry.trace import StatusCode

        detach(self._token)
        if kind is not None:
            self._span.set_attribute("error.type", kind.__qualname__)
            self._span.set_status(StatusCode.ERROR)
        if not self._dropped:
            self._span.end()  # one that does not end is never exported

    def tell(self, name: str = "", attributes: Mapping[str, AttributeValue] | None = None) -> None:
        if name:
            self._span.update_name(name)
        self._span.set_attributes(attributes or {})

    def drop(self) -> None:
        self._dropped = True


class Traces:
    """Makes spans of work, and sends them.

    Args:
        settings: where to, and which share; none: none are made.
        resource: what they are of.
    """

    def __init__(self, settings: Settings | None = None, resource: Resource | None = None) -> None:
        self._tracer: Tracer | None = None
        self.outcomes: Outcomes | None = None
        """What became of exports; none: there are none."""
        if settings is None or settings.otlp is None:
            return
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

        from spanfuse_processor.telemetry.export import WatchedExporter

        exporter = WatchedExporter(settings.otlp)
        self.outcomes = exporter.outcomes
        sampler = ParentBasedTraceIdRatio(settings.sample_ratio)
        self._provider = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer(SELF_SCOPE)

    def work(
        self,
        name: str,
        attributes: Mapping[str, AttributeValue] | None = None,
        *,
        kind: SpanKind | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Work:
        """A piece of work, from `with` on to its end; below the one around it.

        Args:
            headers: of the request that asks for it; it belongs to the trace that they name.
        """
        if self._tracer is None:
            return _UNTOLD
        from opentelemetry.trace import SpanKind

        context = _joined(headers) if headers is not None else None
        return _Told(self._tracer.start_span(name, context, kind or SpanKind.INTERNAL, attributes))

    async def close(self, grace_s: float) -> None:
        """Send what waits, for so many seconds at most."""
        if self._tracer is None:
            return
        import asyncio
        from contextlib import suppress

        from spanfuse_processor.telemetry.export import on_thread

        self._tracer = None
        with suppress(TimeoutError):
            await asyncio.wait_for(on_thread(self._provider.shutdown), grace_s)


def _joined(headers: Mapping[str, str]) -> Context:
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract(headers, Context())
