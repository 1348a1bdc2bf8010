"""The replay host: the core on recorded traffic, in memory of its own, without side effects and without a clock.

Each request goes the same way as live: decode → normalise → the pipeline, call by call. Enforcement is simulated: before a
model call is counted, the decisions that stood against its session, trace and agent when it started are asked whether they
cover the call. It is counted all the same, so that the rest of the session shows what every rule would still have said.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from heapq import nsmallest
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from spanfuse_processor.core.pipeline import Outcome, Pipeline
from spanfuse_processor.core.pricing import Prices
from spanfuse_processor.core.scopes import leaderboard
from spanfuse_processor.core.scopes.stage import ScopeStage
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import DecodeError
from spanfuse_processor.hosts.recordings import Recorded, find, requests
from spanfuse_processor.hosts.replay_ends import Ends
from spanfuse_processor.hosts.replay_report import Report, ScopeFound, SessionReport
from spanfuse_processor.hosts.replay_states import MAX_LIVE_SESSIONS, States
from spanfuse_processor.hosts.replay_totals import modes
from spanfuse_processor.hosts.spans import decoded, is_logs, with_logs
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_schemas import Alias, Call, CallBatch, Charge, Decision, Detection, Policy

MAX_ACCOUNTS: Final = 500
"""Accounts of budgets that are listed."""


class Replay:
    """A replay under one policy. Use it as a context manager.

    Args:
        policy: the rules to try; its `mode` does not matter, since nothing is enforced and blocks are always simulated.
        normaliser: makes calls of spans, with the prices to apply.
    """

    def __init__(self, policy: Policy, normaliser: Normaliser, *, live_sessions: int = MAX_LIVE_SESSIONS) -> None:
        self.report = Report(modes=modes(policy))
        self._pipeline = Pipeline(policy)
        self._normaliser = normaliser
        self._stage = ScopeStage(policy)
        self._states = States(SessionState, live_sessions)
        self._scopes = States(ScopeState, live_sessions)
        self._ends = States(Ends, live_sessions)
        self._detected = set[str]()
        self._calls = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._states.close()
        self._scopes.close()
        self._ends.close()

    def finished(self) -> Report:
        """The report, once all requests have been replayed."""
        for call in self._normaliser.end().calls:
            self.call(call)
        self.report.ingest = Counter(self._normaliser.counters)
        self.report.agents = leaderboard.agents(self._scopes.of_kind("agent:"), self._pipeline.policy.rules.adaptive)
        self.report.models = leaderboard.models(self._scopes.of_kind("model:"))
        self.report.budgets = self._accounts()
        return self.report

    def _accounts(self) -> list[dict[str, Any]]:
        """The accounts as they stood in the end of each, the fullest first."""
        kinds = {budget.scope for budget in self._pipeline.policy.budgets}
        states = (state for kind in sorted(kinds) for state in self._scopes.of_kind(f"{kind}:"))
        shared = (row for state in states for row in self._stage.accounts(state.key, state, state.last_ns))
        sessions = self._states.of_kind("") if "session" in kinds else ()
        own = (row for state in sessions for row in self._pipeline.accounts(state, state.last_ns))
        return nsmallest(MAX_ACCOUNTS, chain(shared, own), key=lambda row: (-row["used"], row["account"]))

    def request(self, recorded: Recorded, *, logs: bool = False) -> None:
        """Replay one request.

        Args:
            logs: whether it comes from a file of log records.
        """
        if recorded.data is None:
            self.report.fail(recorded.where, "longer than any export request")
            return
        try:
            spans, records = decoded(recorded, logs=logs)
        except DecodeError as error:
            self.report.fail(recorded.where, str(error))
            return
        coverage = self.report.coverage
        coverage["requests"] += 1
        coverage["spans"] += len(spans)
        # A recording is replayed as if each request had arrived when its last span ended.
        received_ns = max((span.end_ns for span in spans), default=0)
        logged_ns = max((record.time_ns for record in records), default=0)
        batches = self._normaliser.logs(records, logged_ns), self._normaliser.batch(spans, received_ns)
        for batch in batches:
            for call in batch.calls:
                self.call(call)
            for alias in batch.aliases:
                self._know(alias)
            if batch.reports:
                self._charge(self._process(CallBatch.model_construct(reports=batch.reports)).charges)

    def call(self, call: Call) -> None:
        """Replay one call."""
        state = self._state(call)
        standing, remembered = self._standing(state, call), state.calls
        outcome = self._process(CallBatch.model_construct(calls=(call,)))
        self.report.coverage["duplicates"] += outcome.duplicates
        self.report.coverage["late"] += outcome.late
        self.report.coverage["nested"] += outcome.nested
        if not outcome.touched:
            return
        name = next(iter(outcome.touched))
        session = self.report.sessions.setdefault(name, SessionReport(name))
        if outcome.counted:
            self.report.cover(call)
            if call.kind == "llm" and name not in self._detected:
                self._ends.get(name).add(call.end_ns)
        self._tell(session, outcome, session.calls - remembered)
        if outcome.counted and call.kind == "llm":
            refusing = next((decision.rule for decision in standing if refused(decision, call)), "")
            session.counted(call.cost_nano_usd, refusing)

    def _know(self, alias: Alias) -> None:
        """What is known by now of calls that were replayed before."""
        outcome = self._process(CallBatch.model_construct(aliases=(alias,)))
        sessions = self.report.sessions
        for origin, into in outcome.taken.items():
            session = sessions.setdefault(into, SessionReport(into))
            if origin in sessions:
                session.takes(sessions.pop(origin))
                self.report.coverage["moved"] += 1
            self._tell(session, outcome, session.calls - self._states.get(into).calls)

    def _process(self, batch: CallBatch) -> Outcome:
        self._calls += 1
        return self._pipeline.process(batch, self._states.get, source="replay", offset=self._calls)

    def _tell(self, session: SessionReport, outcome: Outcome, forgotten: int) -> None:
        self.report.rules.update(detection.rule for detection in outcome.detections)
        for detection in outcome.detections:
            self._found(session, detection, forgotten)
        self._charge(outcome.charges)

    def _found(self, session: SessionReport, detection: Detection, forgotten: int) -> None:
        """Note what was found of a session, and at its first block how long that took."""
        session.found(detection, forgotten)
        if detection.action != "block" or session.session in self._detected:
            return
        self._detected.add(session.session)
        ends, since_ns = self._ends.get(session.session), detection.evidence.since_ns
        if since_ns:
            session.time_to_detection_s = round(max(0, detection.at_ns - since_ns) / 1e9, 3)
            session.calls_to_detection = ends.since(since_ns)
        ends.clear()

    def _standing(self, state: SessionState, call: Call) -> list[Decision]:
        """What stands against the call, the narrowest scope first, as a Guard would find it."""
        shared = (("user", call.user), ("team", call.team), ("global", "*")) if self._pipeline.policy.budgets else ()
        named = (("trace", call.trace_id), ("agent", call.agent), *shared)
        scopes = [self._scopes.known(f"{kind}:{name}") for kind, name in named if name]
        held = [state.decision, *(scope.standing for scope in scopes if scope is not None)]
        return [decision for decision in held if decision is not None]

    def _charge(self, charges: list[Charge]) -> None:
        """Take what the call charged to the second stage, and note what that found."""
        for detection in self._stage.process(charges, self._scopes.get).detections:
            self.report.rules[detection.rule] += 1
            if detection.session:
                name = detection.session
                self._found(self.report.sessions.setdefault(name, SessionReport(name)), detection, 0)
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
    return replay_together([(policy, Normaliser(prices or Prices()))], paths, live_sessions=live_sessions)[0]


def replay_together(
    trials: Sequence[tuple[Policy, Normaliser]], paths: Iterable[Path], *, live_sessions: int = MAX_LIVE_SESSIONS
) -> list[Report]:
    """Replay files and directories under several policies, none of which knows of the others; each is read once.

    Args:
        trials: the rules to try, and what makes calls of spans for them.
        paths: files and directories, replayed one after the other, in the order given.
        live_sessions: sessions held in memory, of each policy.
    """
    with ExitStack() as stack:
        replays = [
            stack.enter_context(Replay(policy, normaliser, live_sessions=live_sessions))
            for policy, normaliser in trials
        ]
        for path in with_logs(find(paths)):
            _file(path, replays)
        return [replay.finished() for replay in replays]


def _file(path: Path, replays: Sequence[Replay]) -> None:
    try:
        for recorded in requests(path):
            for replay in replays:
                replay.request(recorded, logs=is_logs(path))
    except (OSError, EOFError, zlib.error) as error:
        for replay in replays:
            replay.report.fail(path.name, str(error))
    else:
        for replay in replays:
            replay.report.files += 1
