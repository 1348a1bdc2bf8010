"""The replay host: the core on recorded traffic, in memory of its own, without side effects and without a clock.

Each request goes the same way as live: decode → normalise → the pipeline, call by call. Enforcement is simulated: before a
model call is counted, the decision that stood against its session when it started is asked whether it covers the call. The
call is counted all the same, so that the rest of the session shows what every rule would still have said.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.pricing import Prices
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import DecodeError
from spanfuse_processor.hosts.recordings import Recorded, find, requests
from spanfuse_processor.otlp.decode import decode
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_schemas import Call, Decision, Detection, Policy

MAX_LIVE_SESSIONS: Final = 10_000
"""Sessions whose state is held in memory; those silent longest wait in a temporary file."""

MAX_PROBLEMS: Final = 20
"""Problems that are told one by one; all are counted."""


@dataclass(slots=True)
class SessionReport:
    """What replay found out about one session."""

    session: str
    """Session id."""
    calls: int = 0
    """Model calls."""
    blocked_at: int | None = None
    """0-based index of the first model call that would not have been let through; none: all would."""
    rule: str = ""
    """Rule that would have refused it."""
    cost_nano_usd: int = 0
    """Money spent by all its calls, those after the block included, nano-dollars."""
    detections: list[dict[str, Any]] = field(default_factory=list)
    """What every rule said: rule, action, mode, call (0-based index), conditional, message."""


@dataclass(slots=True)
class Report:
    """What replay found out about the recordings."""

    sessions: dict[str, SessionReport] = field(default_factory=dict)
    """By session id, in the order of their first call."""
    coverage: Counter[str] = field(default_factory=Counter)
    """How much of the traffic the rules can see; `spans` decoded, `calls` made of them, and how many had what."""
    ingest: Counter[str] = field(default_factory=Counter)
    """What the normaliser counted: spans that made no call, by reason, and what it repaired."""
    rules: Counter[str] = field(default_factory=Counter)
    """Detections by rule."""
    files: int = 0
    """Files that were read to their end."""
    undecodable: int = 0
    """Requests that could not be decoded, and files that could not be read to their end."""
    problems: list[str] = field(default_factory=list)
    """The first of those, with file and line."""

    def to_dict(self) -> dict[str, Any]:
        """The report as it is written."""
        return {
            "sessions": [_session_dict(s) for s in self.sessions.values()],
            "coverage": {name: self.coverage[name] for name in COVERAGE}
            | {"ingest": dict(sorted(self.ingest.items()))},
            "rules": dict(sorted(self.rules.items())),
            "undecodable": self.undecodable,
        }


COVERAGE: Final = {
    "requests": "export requests decoded",
    "spans": "spans in them",
    "calls": "calls counted: model calls and tool executions",
    "llm_calls": "model calls",
    "tool_calls": "tool executions",
    "duplicates": "spans that had been counted before, not counted again",
    "late": "spans older than what their session remembers, not counted",
    "with_session": "calls with a session id of their own or of an ancestor",
    "with_usage": "model calls with reported token usage",
    "with_price": "model calls with a reported or computed price",
    "with_content": "calls with content or fingerprints; the others feed structural rules only",
}
"""Keys of the report's `coverage`, and what each counts."""


def _session_dict(report: SessionReport) -> dict[str, Any]:
    return {
        "session": report.session,
        "calls": report.calls,
        "blocked_at": report.blocked_at,
        "rule": report.rule,
        "cost_nano_usd": report.cost_nano_usd,
        "detections": report.detections,
    }


class Sessions:
    """The states of all sessions: the latest in memory, the others in a temporary file that goes away with it.

    Args:
        live: sessions held in memory.
    """

    def __init__(self, live: int = MAX_LIVE_SESSIONS) -> None:
        self._live: OrderedDict[str, SessionState] = OrderedDict()
        self._max_live = live
        self._spilled = sqlite3.connect("")  # SQLite's name for a private temporary database
        self._spilled.execute("CREATE TABLE states (session TEXT PRIMARY KEY, state BLOB) WITHOUT ROWID")

    def get(self, session: str) -> SessionState:
        """The state of a session; a new one for a session never seen."""
        state = self._live.get(session)
        if state is not None:
            self._live.move_to_end(session)
            return state
        state = self._live[session] = self._recall(session) or SessionState(session)
        if len(self._live) > self._max_live:
            oldest, spilled = self._live.popitem(last=False)
            self._spilled.execute("REPLACE INTO states VALUES (?, ?)", (_key(oldest), spilled.snapshot()))
        return state

    def _recall(self, session: str) -> SessionState | None:
        row = self._spilled.execute("SELECT state FROM states WHERE session = ?", (_key(session),)).fetchone()
        return SessionState.restore(row[0]) if row else None

    def close(self) -> None:
        """Forget all."""
        self._spilled.close()


def _key(session: str) -> bytes:
    return session.encode("utf-8", "surrogatepass")


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
        self._states = Sessions(live_sessions)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._states.close()

    def run(self, paths: Iterable[Path]) -> Report:
        """Replay files and directories, one after the other, in the order given."""
        for path in find(paths):
            try:
                for recorded in requests(path):
                    self._request(recorded)
            except (OSError, EOFError, zlib.error) as error:
                self._undecodable(path.name, str(error))
            else:
                self.report.files += 1
        self.report.ingest = Counter(self._normaliser.counters)
        return self.report

    def _undecodable(self, where: str, why: str) -> None:
        self.report.undecodable += 1
        if len(self.report.problems) < MAX_PROBLEMS:
            self.report.problems.append(f"{where}: {why}")

    def _request(self, recorded: Recorded) -> None:
        if recorded.data is None:
            self._undecodable(recorded.where, "longer than any export request")
            return
        try:
            spans = decode(recorded.data, recorded.encoding)
        except DecodeError as error:
            self._undecodable(recorded.where, str(error))
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
        state = self._states.get(call.session)
        standing = state.decision
        outcome = self._pipeline.step(state, call)
        self.report.coverage["duplicates"] += outcome.duplicates
        self.report.coverage["late"] += outcome.late
        if not outcome.counted:
            return
        report = self.report.sessions.setdefault(call.session, SessionReport(call.session))
        self._cover(call)
        for detection in outcome.detections:
            self.report.rules[detection.rule] += 1
            report.detections.append(_detection_dict(detection))
        if call.kind != "llm":
            return
        if report.blocked_at is None and standing is not None and refused(standing, call):
            report.blocked_at, report.rule = report.calls, standing.rule
        report.calls += 1
        report.cost_nano_usd += call.cost_nano_usd

    def _cover(self, call: Call) -> None:
        coverage = self.report.coverage
        coverage["calls"] += 1
        coverage["with_session"] += call.session_source != "trace"
        coverage["with_content"] += call.content != "structure"
        if call.kind == "tool":
            coverage["tool_calls"] += 1
            return
        coverage["llm_calls"] += 1
        coverage["with_usage"] += not call.usage_estimated and call.tokens.input + call.tokens.output > 0
        coverage["with_price"] += call.cost_source in ("reported", "computed")


def refused(standing: Decision, call: Call) -> bool:
    """Whether a Guard that obeys the decision would have refused a model call.

    A call that had started before the decision was made could not have been refused by it, and one that starts after its
    expiry is the probe.
    """
    if standing.state != "open" or standing.action != "block" or call.start_ns < standing.issued_at_ns:
        return False
    if standing.expires_at_ns is not None and standing.expires_at_ns <= call.start_ns:
        return False
    return standing.covers(call.input, call.answers)


def _detection_dict(detection: Detection) -> dict[str, Any]:
    return {
        "rule": detection.rule,
        "action": detection.action,
        "mode": detection.mode,
        "call": detection.call,
        "conditional": detection.conditional,
        "message": detection.message,
    }


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
