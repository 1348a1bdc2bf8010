"""Which dialect a span speaks: looked up, so that it costs the same with three dialects and with thirty."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from spanfuse_processor.otlp.dialects.dialect import Dialect
from spanfuse_processor.otlp.span import Span

_MAX_SCOPES: Final = 4_096
"""Scopes remembered; a name is the sender's to choose."""


class Detector:
    """Tells dialects apart: by an attribute that overrides, else by the scope, else by an attribute, else by the span's name.

    Args:
        dialects: earlier ones win.
        default: where none knows a span.
    """

    def __init__(self, dialects: Iterable[Dialect], default: Dialect) -> None:
        rows = tuple(dialects)
        self._default = default
        self._overrides = [(key, row) for row in rows for key in row.overrides]
        self._scopes = {scope: row for row in reversed(rows) for scope in row.scopes if scope[-1] != "*"}
        self._beginnings = [(scope[:-1], row) for row in rows for scope in row.scopes if scope[-1] == "*"]
        marks = [((mark, None) if isinstance(mark, str) else mark, row) for row in rows for mark in row.attributes]
        self._marks = [(key, value, row) for (key, value), row in marks]
        self._keys = frozenset(key for key, _, _ in self._marks)
        self._names = tuple((name, row) for row in rows for name in row.span_names)
        self._seen: dict[str, Dialect | None] = {}

    def __call__(self, span: Span) -> Dialect:
        """The dialect of a span."""
        attributes = span.attributes
        for key, row in self._overrides:
            if key in attributes:
                return row
        try:
            found = self._seen[span.scope]
        except KeyError:
            found = self._by_scope(span.scope)
        if found is not None:
            return found
        if not attributes.keys().isdisjoint(self._keys):
            for key, value, row in self._marks:
                if key in attributes and (value is None or attributes[key] == value):
                    return row
        return next((row for name, row in self._names if span.name.startswith(name)), self._default)

    def _by_scope(self, scope: str) -> Dialect | None:
        found = self._scopes.get(scope)
        if found is None:
            found = next((row for start, row in self._beginnings if scope.startswith(start)), None)
        if len(self._seen) >= _MAX_SCOPES:
            self._seen.clear()  # one atomic step: other threads may be reading
        self._seen[scope] = found
        return found
