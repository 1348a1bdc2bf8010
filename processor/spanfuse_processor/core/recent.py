"""The last model calls of a session, by which another span of the same call is told, whichever of them comes first.

Within one request ingest has told them apart already (`otlp.nested`); this is for spans that come in different ones.
"""

from __future__ import annotations

from typing import Any, Final

from spanfuse_schemas import Call

KEPT: Final = 8
"""Model calls remembered: spans of one call end within milliseconds of one another."""

_LOW: Final = 2**32 - 1
"""Ids and hashes are kept as 32 bits: a few calls of one session are not mistaken for one another."""


_MILLISECOND: Final = 1_000_000


Estimate = tuple[int, int, int]
"""Cost (nano-dollars), input and output tokens."""


class Counted:
    """A model call that was counted."""

    __slots__ = ("also", "bare", "end_ns", "estimate", "failed", "parent", "response", "span", "start_ns", "tokens")

    def __init__(self, call: Call) -> None:
        tokens = call.tokens
        self.span = _low(call.span_id)
        self.also = 0
        """The last other span of it that has come; 0: none has."""
        self.parent = _low(call.parent_span_id)
        self.response = _low(call.response)
        self.start_ns = call.start_ns
        self.end_ns = call.end_ns
        self.tokens = tokens.input + tokens.output
        self.estimate: Estimate | None = None
        """What it was taken to cost, where that was not measured."""
        if call.usage_estimated:
            self.estimate = call.cost_nano_usd, tokens.input, tokens.output
        self.bare = call.content == "structure"
        """Nothing is known of its content so far."""
        self.failed = bool(call.error_type)

    @property
    def twin(self) -> int:
        """What a span that tells of the same call has in common with it, unless one is inside the other."""
        return self.response or self.end_ns


class Recent:
    """The last model calls."""

    __slots__ = ("_calls", "_parents", "_spans", "_twins")

    def __init__(self) -> None:
        self._calls: list[Counted] = []
        # By these nearly every call is known at once to be a new one.
        self._spans: list[int] = []
        self._parents: list[int] = []
        self._twins: list[int] = []

    def add(self, call: Counted) -> None:
        """Remember a call that counts."""
        calls, spans, parents, twins = self._calls, self._spans, self._parents, self._twins
        calls.append(call)
        spans.append(call.span)
        parents.append(call.parent)
        twins.append(call.twin)
        if len(calls) > KEPT:
            del calls[0], spans[0], parents[0], twins[0]

    def of(self, span_id: str) -> Counted | None:
        """The call of this very span."""
        span = _low(span_id)
        return next((known for known in self._calls if known.span == span), None)

    def same(self, call: Counted, inner: str) -> Counted | None:
        """The counted call of which a span tells once more.

        Args:
            inner: id of a model span inside it; empty: none is known.
        """
        span, parent, response, inside = call.span, call.parent, call.response, _low(inner)
        if not inside and span not in self._parents and parent not in self._spans and call.twin not in self._twins:
            return None
        for known in reversed(self._calls):
            if known.parent == span or (inside and inside in (known.span, known.also)):
                if call.failed or not known.failed:
                    return known
            elif known.span == parent:
                # Whatever else lies within a call whose inner span has come is another call.
                if not known.also and (known.failed or not call.failed):
                    return known
            elif known.response == response and known.tokens == call.tokens and _is_twin(known, call):
                return known
        return None

    def snapshot(self) -> list[Any]:
        """Flat and small."""
        flat: list[Any] = []
        for known in self._calls:
            flags = known.bare | known.failed << 1 | known.also << 2
            lasted_ns = known.end_ns - known.start_ns
            tokens = known.tokens if known.estimate is None else known.estimate
            flat += known.span, known.parent, known.response, known.end_ns, lasted_ns, tokens, flags
        return flat

    @classmethod
    def restore(cls, data: list[Any]) -> Recent:
        """The inverse of `snapshot`."""
        recent = cls()
        for at in range(0, len(data), 7):
            known = Counted.__new__(Counted)
            known.span, known.parent, known.response, known.end_ns, lasted_ns, tokens, flags = data[at : at + 7]
            known.estimate = None if isinstance(tokens, int) else tuple(tokens)
            known.tokens = tokens if isinstance(tokens, int) else tokens[1] + tokens[2]
            known.start_ns = known.end_ns - lasted_ns
            known.bare, known.failed, known.also = bool(flags & 1), bool(flags & 2), flags >> 2
            recent.add(known)
        return recent

    def extend(self, other: Recent) -> None:
        """Take in those of another session."""
        both = Recent()
        for known in sorted((*self._calls, *other._calls), key=lambda known: known.end_ns):
            both.add(known)
        self._calls, self._spans, self._parents, self._twins = both._calls, both._spans, both._parents, both._twins


def _low(text: str) -> int:
    return int(text, 16) & _LOW if text else 0


def _is_twin(known: Counted, call: Counted) -> bool:
    """Two spans with one response id and the same tokens are one call if one encloses the other. Without an id they are one
    that was recorded twice if they began and ended in the same nanosecond, by a clock that is finer than one by which calls
    are merely started together."""
    if call.response:
        first, last = (known, call) if known.start_ns <= call.start_ns else (call, known)
        return last.end_ns <= first.end_ns or first.start_ns == last.start_ns
    fine = call.start_ns % _MILLISECOND or call.end_ns % _MILLISECOND
    same = known.start_ns == call.start_ns and known.end_ns == call.end_ns
    return bool(fine) and same and known.parent == call.parent != 0 and call.tokens != 0
