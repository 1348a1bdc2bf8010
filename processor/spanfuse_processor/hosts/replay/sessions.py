"""The first stage of a replay: the sessions of one lane under one policy.

Enforcement is simulated: before a model call is counted, the decision that stood against its session when it started is asked
whether it covers the call. It is counted all the same, so that the rest of the session shows what every rule would still have
said. What sessions add up to, and what stands against their agent, trace, user or team, is the second stage's (`scopes`), which
gets the charges; a lane does not wait for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any, Final, NamedTuple, Self

from spanfuse_processor.core.pipeline import Pipeline, Run
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.hosts.replay.ends import Ends
from spanfuse_processor.hosts.replay.report import SessionReport
from spanfuse_processor.hosts.replay.states import MAX_LIVE_SESSIONS, States
from spanfuse_schemas import Alias, Call, CallBatch, Charge, Decision, Detection, Policy

PART: Final = 200
"""Calls of a lane that are charged together, unless they came in smaller batches. It decides how soon a scope is stopped:
within three seconds where there are a thousand calls a second in all."""
MAX_ACCOUNTS: Final = 500
"""Accounts of budgets that are listed."""
LAST: Final = 2**63 - 1

Place = tuple[int, int, int, str]
"""When a session was first heard of: ordinal of the batch, end and start of the call, id of its span."""
Seen = tuple[str, str, str, str, bool, bool]
"""Of a counted call: kind, session source, content, cost source, whether its usage is an estimate, and whether it is none."""


class Row(NamedTuple):
    """A model call that counted, for whoever asks whether a scope would have refused it."""

    ordinal: int
    session: str
    cost_nano_usd: int
    start_ns: int
    refused_by: str
    """Rule of its session that would have refused it; empty: none."""
    scopes: tuple[str, ...]
    """Who else may stand against it, the narrowest first."""


class Take(NamedTuple):
    """Calls of a trace have gone to their session."""

    origin: str
    into: str


@dataclass(slots=True)
class LaneReport:
    """What a lane comes to under one policy."""

    sessions: dict[str, SessionReport] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    """When each session was first heard of."""
    taken: dict[str, str] = field(default_factory=dict)
    """Trace → session to which its calls have gone."""
    coverage: Counter[str] = field(default_factory=Counter)
    seen: Counter[Seen] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    budgets: list[dict[str, Any]] = field(default_factory=list)
    broken: dict[int, str] = field(default_factory=dict)
    """Batches that could not be decoded, by ordinal, and why."""


class Sessions:
    """The stage under one policy. Use it as a context manager.

    Args:
        source: name of the lane.
        charge: gets the charges of some batches, with the ordinal of the last of them.
        row: gets each model call, and what was taken; none: no scope can refuse a call.
        live: sessions held in memory.
    """

    def __init__(
        self,
        policy: Policy,
        source: str,
        charge: Callable[[int, list[Charge]], None],
        row: Callable[[Row | Take], None] | None = None,
        live: int = MAX_LIVE_SESSIONS,
    ) -> None:
        self.found = LaneReport()
        self._pipeline = Pipeline(policy)
        self._source, self._charge, self._row = source, charge, row
        self._idle_ns = int(policy.idle_timeout_s * 1e9)
        self._without_users = all(budget.scope != "user" for budget in policy.budgets)
        self._states = States(SessionState, live)
        self._ends: dict[str, Ends] = {}
        self._detected = set[str]()
        self._run = self._pipeline.begin(self._states.get)
        self._part = self._ordinal = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget all."""
        self._states.close()

    def batch(self, ordinal: int, batch: CallBatch, size: int) -> None:
        """Take a batch.

        Args:
            ordinal: its place among all.
            size: calls in the whole of it, of which these may be some.
        """
        self._ordinal, run = ordinal, self._run
        for call in batch.calls:
            self._call(call, run)
        for alias in batch.aliases:
            self._know(alias, run)
        for report in batch.reports:
            run.ledger.report(report)
        self._part += len(batch.calls)
        if self._part >= min(size, PART):
            self._end_part()

    def finished(self) -> LaneReport:
        """What it comes to, once all batches are in."""
        self._end_part()
        if any(budget.scope == "session" for budget in self._pipeline.policy.budgets):
            rows = (r for s in self._states.of_kind("") for r in self._pipeline.accounts(s, s.last_ns))
            self.found.budgets = nsmallest(MAX_ACCOUNTS, rows, key=fullest)
        return self.found

    def _end_part(self) -> None:
        out, coverage = self._run.ended(self._source, self._ordinal), self.found.coverage
        coverage.update(duplicates=out.duplicates, late=out.late, nested=out.nested)
        charges = out.charges
        if self._without_users:  # nobody reads theirs, and they are most
            charges = [charge for charge in charges if not charge.scope.startswith("user:")]
        if charges:
            self._charge(self._ordinal, charges)
        self._states.trim()
        self._run, self._part = self._pipeline.begin(self._states.get), 0

    def _call(self, call: Call, run: Run) -> None:
        pipeline, state = self._pipeline, run.state(call.session)
        if state is not None and state.ways is not None:
            call, state = pipeline.place(call, run)
        if state is None:
            return
        if call.start_ns - state.last_ns > self._idle_ns and state.last_ns:  # it has been forgotten, as live
            state = self._states.renew(state.key)
            run.begin_anew(state)
        held, out = state.decision, run.out
        counted, told = out.counted, len(out.detections)
        if not pipeline.enter(state, call, run):
            return
        found, name = self.found, call.session
        session = found.sessions.get(name) or self._new(name, (self._ordinal, call.end_ns, call.start_ns, call.span_id))
        is_model = out.counted > counted and call.kind == "llm"
        if out.counted > counted:
            found.seen[_seen(call)] += 1
            if is_model and name not in self._detected:
                (self._ends.get(name) or self._ends.setdefault(name, Ends())).add(call.end_ns)
        if len(out.detections) > told:
            self._tell(session, out.detections[told:], session.calls - state.calls + is_model)
        if is_model:
            refused_by = held.rule if held is not None and refused(held, call) else ""
            if self._row is not None:
                self._row(Row(self._ordinal, name, call.cost_nano_usd, call.start_ns, refused_by, _scopes(call)))
            session.counted(call, refused_by)

    def _new(self, name: str, place: Place) -> SessionReport:
        session = self.found.sessions[name] = SessionReport(name)
        self.found.places[name] = place
        return session

    def _know(self, alias: Alias, run: Run) -> None:
        """What is known by now of calls that were replayed before."""
        out, found = run.out, self.found
        told, origin = len(out.detections), alias.session
        self._pipeline.know(alias, run)
        into = out.taken.pop(origin, "")
        if not into:
            return
        session = found.sessions.get(into) or self._new(into, (self._ordinal, LAST, 0, into))
        if origin in found.sessions:
            session.takes(found.sessions.pop(origin))
            found.taken[origin] = into
            found.coverage["moved"] += 1
            if self._row is not None:
                self._row(Take(origin, into))
        state = run.state(into)
        self._tell(session, out.detections[told:], session.calls - (state.calls if state is not None else 0))

    def _tell(self, session: SessionReport, detections: list[Detection], forgotten: int) -> None:
        for detection in detections:
            self.found.rules[detection.rule] += 1
            session.found(detection, forgotten)
            if detection.action == "block" and session.session not in self._detected:
                self._detect(session, detection)

    def _detect(self, session: SessionReport, detection: Detection) -> None:
        """Note at the first block of a session how long that took."""
        self._detected.add(session.session)
        ends, since_ns = self._ends.pop(session.session, None), detection.evidence.since_ns
        if since_ns:
            session.time_to_detection_s = round(max(0, detection.at_ns - since_ns) / 1e9, 3)
            session.calls_to_detection = ends.since(since_ns) if ends is not None else 0


def refused(standing: Decision, call: Call) -> bool:
    """Whether a Guard that obeys the decision would have refused a model call.

    A call that had started before the decision was made could not have been refused by it, and one that starts after its
    expiry is the probe.
    """
    return stands(standing, call.start_ns) and standing.covers(call.input, call.answers, call.spoken)


def stands(standing: Decision, at_ns: int) -> bool:
    """Whether it is a block that holds at that time."""
    if standing.state != "open" or standing.action != "block" or at_ns < standing.issued_at_ns:
        return False
    return standing.expires_at_ns is None or standing.expires_at_ns > at_ns


def fullest(row: dict[str, Any]) -> tuple[float, str]:
    """By which accounts are sorted."""
    return -row["used"], row["account"]


def _scopes(call: Call) -> tuple[str, ...]:
    named = (("trace", call.trace_id), ("agent", call.agent), ("user", call.user), ("team", call.team), ("global", "*"))
    return tuple(f"{kind}:{name}" for kind, name in named if name)


def _seen(call: Call) -> Seen:
    tokens = call.tokens
    is_empty = not (tokens.input or tokens.output)
    return call.kind, call.session_source, call.content, call.cost_source, call.usage_estimated, is_empty
