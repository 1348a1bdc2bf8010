"""One model call that two instrumentations see beside one another, or in traces of their own, whose spans come in different
requests.

A client of a model that makes spans itself does so beside those of whoever traces it, and where neither has a parent each
begins a trace. The core tells spans of one call from those of others within a session: so the one that comes later is given
the session of the first, and its span, since what they counted of a stream differs: some add up what its parts say.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from spanfuse_processor.otlp.candidates import Candidate, placing
from spanfuse_processor.otlp.pairs import tokens_taken
from spanfuse_schemas import Alias, Call
from spanfuse_schemas.fingerprint import exact_hash

MAX_KEPT: Final = 4_096
"""Model calls remembered; their spans end, and are sent, within seconds of one another."""


class _Known(NamedTuple):
    span_id: str
    scope: str
    trace_id: str
    session: str
    start_ns: int
    end_ns: int
    placing: tuple[bool, bool, bool, int]
    within: bool
    """There are spans around it, which may say whose it is."""
    response: str


class Followed(NamedTuple):
    """What becomes of a call."""

    call: Call
    alias: Alias | None = None
    waits: bool = False
    """Another span of it waits to hear whose it is."""


class Twins:
    """The last model calls by the id of their response, and by session and tokens, for spans that do not know that id."""

    def __init__(self) -> None:
        self._known: OrderedDict[str | tuple[str | int, ...], _Known] = OrderedDict()

    def follow(self, found: Candidate) -> Followed:
        """A call as it is to be counted, and what its span says of the one that was counted before it."""
        call = found.call
        known = self._twin(found)
        if known is None:
            self._remember(found)
            return Followed(call)
        call = call.model_copy(update={"repeats": call.repeats or known.span_id})
        if known.trace_id == call.trace_id:
            return Followed(call, waits=known.within)
        same = call.model_copy(update={"session": known.session, "session_source": "inherited"})
        moves = known.session == f"trace:{known.trace_id}" and placing(call) > known.placing
        return Followed(same, _alias(known, call) if moves else None, known.within)

    def _twin(self, found: Candidate) -> _Known | None:
        """The call that was counted before of which a span tells, too."""
        call = found.call
        known = self._known.get(call.response) if call.response else None
        if known is not None and known.scope != found.scope and _meet(known, call):
            return known
        alike = self._known.get(tokens_taken(call))
        if (
            alike is None
            or alike.scope == found.scope
            or (alike.response and call.response)
            or not _encloses(alike, call)
        ):
            return None
        return alike

    def _remember(self, found: Candidate) -> None:
        call = found.call
        place = (call.span_id, found.scope, call.trace_id, call.session, call.start_ns, call.end_ns)
        known = _Known(*place, placing(call), bool(call.parent_span_id), call.response)
        if call.response:
            self._known.setdefault(call.response, known)
        if took := tokens_taken(call):
            self._known[took] = known
        while len(self._known) > MAX_KEPT:
            self._known.popitem(last=False)


def _meet(known: _Known, call: Call) -> bool:
    return known.start_ns <= call.end_ns and call.start_ns <= known.end_ns


def _encloses(known: _Known, call: Call) -> bool:
    """Whether one of them lies within the other."""
    first, last = (known, call) if known.start_ns <= call.start_ns else (call, known)
    return last.end_ns <= first.end_ns


def _alias(known: _Known, call: Call) -> Alias:
    """It names the session, at least the trace with the rest of what the agent does, and perhaps the user and team, of a call
    that was counted under its own trace."""
    owes = bool(call.user or call.team)
    return Alias(
        id=exact_hash(f"{call.span_id} {known.session}"),
        trace_id=known.trace_id,
        session=known.session,
        into=call.session,
        from_ns=min(known.start_ns, call.start_ns),
        to_ns=max(known.end_ns, call.end_ns),
        user=call.user,
        team=call.team,
        calls=int(owes),
        cost_nano_usd=call.cost_nano_usd * owes,
        input_tokens=call.tokens.input * owes,
        output_tokens=call.tokens.output * owes,
    )
