"""The replay host: the core on recorded traffic, in memory of its own, without side effects and without a clock.

Each request goes the same way as live: decode → normalise → the pipeline, call by call. Enforcement is simulated: before a
model call is counted, the decisions that stood against its session, trace and agent when it started are asked whether they
cover the call. It is counted all the same, so that the rest of the session shows what every rule would still have said.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.pricing import Prices
from spanfuse_processor.core.scopes import leaderboard
from spanfuse_processor.core.scopes.stage import ScopeStage
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import DecodeError
from spanfuse_processor.hosts.recordings import Recorded, find, requests
from spanfuse_processor.hosts.replay_report import Report, ScopeFound, SessionReport
from spanfuse_processor.hosts.replay_states import MAX_LIVE_SESSIONS, States
from spanfuse_processor.otlp.decode import decode
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_schemas import Call, CallBatch, Charge, Decision, Policy


class Replay:
    """A replay under one policy. Use it as a context manager.

    Args:
        policy: the rules to try; its `mode` does not matter, since nothing is enforced and blocks are always simulated.
        normaliser: makes calls of spans, with the prices to apply.
    """

    def __init__(self, policy: Policy, normaliser: Normaliser, *, live_sessions: int = MAX_LIVE_SESSIONS) -> None:
        self.report = Report()
        self._pipeline = Pipeline(policy)
        self._normaliser = normaliser
        self._stage = ScopeStage(policy)
        self._states = States(SessionState, live_sessions)
        self._scopes = States(ScopeState, live_sessions)
        self._calls = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._states.close()
        self._scopes.close()

    def run(self, paths: Iterable[Path]) -> Report:
        """Replay files and directories, one after the other, in the order given."""
        for path in find(paths):
            try:
                for recorded in requests(path):
                    self._request(recorded)
            except (OSError, EOFError, zlib.error) as error:
                self.report.fail(path.name, str(error))
            else:
                self.report.files += 1
        self.report.ingest = Counter(self._normaliser.counters)
        self.report.agents = leaderboard.agents(self._scopes.of_kind("agent:"), self._pipeline.policy.rules.adaptive)
        self.report.models = leaderboard.models(self._scopes.of_kind("model:"))
        return self.report

    def _request(self, recorded: Recorded) -> None:
        if recorded.data is None:
            self.report.fail(recorded.where, "longer than any export request")
            return
        try:
            spans = decode(recorded.data, recorded.encoding)
        except DecodeError as error:
            self.report.fail(recorded.where, str(error))
            return
        coverage = self.report.coverage
        coverage["requests"] += 1
        coverage["spans"] += len(spans)
        # A recording is replayed as if each request had arrived when its last span ended.
        received_ns = max((span.end_ns for span in spans), default=0)
        for call in self._normaliser.batch(spans, received_ns).calls:
            self.call(call)

    def call(self, call: Call) -> None:
        """Replay one call."""
        state = self._state(call)
        standing, remembered = self._standing(state, call), state.calls
        self._calls += 1
        batch = CallBatch.model_construct(calls=(call,))
        outcome = self._pipeline.process(batch, lambda _: state, source="replay", offset=self._calls)
        self.report.coverage["duplicates"] += outcome.duplicates
        self.report.coverage["late"] += outcome.late
        if not outcome.counted:
            return
        self.report.cover(call)
        self.report.rules.update(detection.rule for detection in outcome.detections)
        session = self.report.sessions.setdefault(call.session, SessionReport(call.session))
        for detection in outcome.detections:
            session.found(detection, session.calls - remembered)
        self._charge(outcome.charges)
        if call.kind != "llm":
            return
        refusing = next((decision for decision in standing if refused(decision, call)), None)
        if session.blocked_at is None and refusing is not None:
            session.blocked_at, session.rule = session.calls, refusing.rule
        session.calls += 1
        session.cost_nano_usd += call.cost_nano_usd

    def _standing(self, state: SessionState, call: Call) -> list[Decision]:
        """What stands against the call, the narrowest scope first, as a Guard would find it."""
        scopes = (self._scopes.known(key) for key in (f"trace:{call.trace_id}", f"agent:{call.agent}"))
        return [s.decision for s in (state, *scopes) if s is not None and s.decision is not None]

    def _charge(self, charges: list[Charge]) -> None:
        """Take what the call charged to the second stage, and note what that found."""
        for detection in self._stage.process(charges, self._scopes.get).detections:
            self.report.rules[detection.rule] += 1
            if detection.session:
                self.report.sessions[detection.session].found(detection, 0)
            else:
                self.report.scopes.append(ScopeFound.of(detection))

    def _state(self, call: Call) -> SessionState:
        """The state that the call meets: one that was idle for too long has been forgotten, as live."""
        state = self._states.get(call.session)
        idle_ns = call.start_ns - state.last_ns
        if state.last_ns and idle_ns > self._pipeline.policy.idle_timeout_s * 1e9:
            return self._states.renew(call.session)
        return state


def refused(standing: Decision, call: Call) -> bool:
    """Whether a Guard that obeys the decision would have refused a model call.

    A call that had started before the decision was made could not have been refused by it, and one that starts after its
    expiry is the probe.
    """
    if standing.state != "open" or standing.action != "block" or call.start_ns < standing.issued_at_ns:
        return False
    if standing.expires_at_ns is not None and standing.expires_at_ns <= call.start_ns:
        return False
    return standing.covers(call.input, call.answers, call.spoken)


def replay_files(
    policy: Policy, paths: Iterable[Path], *, prices: Prices | None = None, live_sessions: int = MAX_LIVE_SESSIONS
) -> Report:
    """Replay files and directories.

    Args:
        policy: the rules to try.
        paths: files and directories, see `recordings`.
        prices: what calls cost that report no cost themselves; default: the list prices.
        live_sessions: sessions held in memory.
    """
    with Replay(policy, Normaliser(prices or Prices()), live_sessions=live_sessions) as replay:
        return replay.run(paths)
