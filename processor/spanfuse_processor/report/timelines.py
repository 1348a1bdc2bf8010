"""The steps of some sessions, drawn: repeats are seen as equal letters, and where the session would be stopped as a mark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from spanfuse_processor.exporters.readmodel.facts import numbered
from spanfuse_processor.exporters.readmodel.model import StepRow
from spanfuse_processor.hosts.facts import step_of
from spanfuse_processor.hosts.replay.report import SessionReport
from spanfuse_processor.page.drawing import Step, Strip, strip
from spanfuse_schemas import Call

MAX_STEPS: Final = 120
"""Steps drawn of a session."""
_BEFORE: Final = 80
"""Of these, before the stop."""


@dataclass
class Timeline:
    """A session, drawn."""

    session: str
    kind: str = ""
    """Its label; empty: it has none."""
    agent: str = ""
    calls: int = 0
    rule: str = ""
    """What would stop it; empty: nothing."""
    message: str = ""
    """What that rule says of it, one sentence."""
    saved_calls: int = 0
    saved_nano_usd: int = 0
    stop: int | None = None
    """Model call, from 0, that would be the first refused."""
    was: int | None = None
    """The same with what it is compared with."""
    compared: bool = False
    """Whether it is compared with something."""
    first: str = ""
    """Span with which began what stops it; empty: not known."""
    last: str = ""
    """Span that gave it away."""
    left_out: int = 0
    """Model calls that are not drawn."""
    rows: list[StepRow] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    """Of each step, how many model calls came before it."""

    def drawn(self) -> Strip:
        """Its steps."""
        return strip(numbered(self.rows))

    def parts(self) -> list[tuple[Step, str]]:
        """Each step with what lies before it: `stop`, `was`, `both` or nothing."""
        found = []
        marked = set[str]()
        for step, place in zip(self.drawn().steps, self.places, strict=True):
            llm = step.row.kind == "llm"
            here = [
                name for name, at in (("stop", self.stop), ("was", self.was))
                if llm and at is not None and place >= at and name not in marked
            ]  # fmt: skip
            marked |= set(here)
            found.append((step, "both" if len(here) > 1 else "".join(here)))
        return found

    def refused(self, number: int) -> bool:
        """Whether a step, by its place among those drawn from 1, comes after the stop."""
        return self.stop is not None and self.places[number - 1] >= self.stop

    def loops(self) -> list[bool]:
        """Of each step, whether it lies within what stops the session, from its beginning to where it was given away."""
        spans = [row.span_id for row in self.rows]
        if self.last not in spans:
            return [False] * len(spans)
        end = spans.index(self.last)
        begin = spans.index(self.first) if self.first in spans else 0 if self.first else end
        return [begin <= place <= end for place in range(len(spans))]


class Timelines:
    """Collects the steps of the sessions that are drawn, of each those around its stop.

    Args:
        reports: what the replay says of them.
        old: what it says with what they are compared with, if they are.
    """

    def __init__(self, reports: Iterable[SessionReport], old: Mapping[str, SessionReport] | None = None) -> None:
        self._reports = {one.session: one for one in reports}
        self.found = {name: _begun(one, old) for name, one in self._reports.items()}
        self._rules = {name: _rules(one) for name, one in self._reports.items()}
        self._llm = dict.fromkeys(self.found, 0)
        self._seen = set[tuple[str, str, str]]()

    def add(self, calls: Iterable[Call]) -> None:
        """Take in calls, in the order in which they were replayed."""
        for call in calls:
            line = self.found.get(call.session)
            span = (call.session, call.trace_id, call.span_id)
            if line is None or span in self._seen:
                continue
            self._seen.add(span)
            place = self._llm[call.session]
            self._llm[call.session] += call.kind == "llm"
            line.agent = line.agent or call.agent
            first = max(0, min(_middle(line), line.calls - 1) - _BEFORE)
            if place >= first and len(line.rows) < MAX_STEPS:
                rules = self._rules[call.session].get(call.span_id, ())
                line.rows.append(step_of(call, rules, ""))
                line.places.append(place)

    def all(self) -> list[Timeline]:
        """The sessions, in the order in which they were given."""
        for line in self.found.values():
            line.left_out = max(0, line.calls - sum(row.kind == "llm" for row in line.rows))
        return list(self.found.values())


def _middle(line: Timeline) -> int:
    """The call around which steps are drawn: the first stop, else the end."""
    stops = [at for at in (line.stop, line.was) if at is not None]
    return min(stops) if stops else line.calls - 1


def _begun(one: SessionReport, old: Mapping[str, SessionReport] | None) -> Timeline:
    found = next((found for found in one.detections if found.rule == one.rule and found.action == "block"), None)
    before = old.get(one.session) if old is not None else None
    return Timeline(
        session=one.session,
        calls=one.calls,
        rule=one.rule,
        message=found.message if found is not None else "",
        first=str(found.evidence.get("first_span_id", "")) if found is not None else "",
        last=str(found.evidence.get("last_span_id", "")) if found is not None else "",
        saved_calls=one.saved_calls,
        saved_nano_usd=one.saved_nano_usd,
        stop=one.blocked_at,
        was=before.blocked_at if before is not None else None,
        compared=old is not None,
    )


def _rules(one: SessionReport) -> dict[str, tuple[str, ...]]:
    """Span → the rules that fired on it."""
    found: dict[str, tuple[str, ...]] = {}
    for detection in one.detections:
        span = str(detection.evidence.get("last_span_id", ""))
        found[span] = (*found.get(span, ()), detection.rule)
    return found
