"""What a replay reports: how much of the traffic the rules could see, and per session where it would have been stopped.

What the sessions add up to is in `replay_totals`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from spanfuse_processor.hosts.recordings import Problems
from spanfuse_processor.hosts.replay.totals import by_rule, totals
from spanfuse_schemas import Call, Detection
from spanfuse_schemas.detection import DetectionAction, Mode

COVERAGE: Final = {
    "requests": "export requests decoded",
    "spans": "spans in them",
    "calls": "calls counted: model calls and tool executions",
    "llm_calls": "model calls",
    "tool_calls": "tool executions",
    "duplicates": "spans that had been counted before, not counted again",
    "nested": "spans of model calls that another span had told of in an earlier request, not counted again",
    "moved": "traces whose calls turned out to belong to a session that was named later",
    "late": "spans older than what their session remembers, not counted",
    "with_session": "calls with a session id of their own or of an ancestor",
    "with_usage": "model calls with reported token usage",
    "with_price": "model calls with a reported or computed price",
    "with_content": "calls with content or fingerprints; the others feed structural rules only",
}
"""Keys of the report's `coverage`, and what each counts."""


@dataclass(slots=True, frozen=True)
class Found:
    """What one rule said once."""

    rule: str
    """Name of the rule."""
    action: DetectionAction
    """What the rule asks for."""
    mode: Mode
    """Mode of the rule."""
    call: int
    """0-based index of the model call on which, or after which, it fired."""
    at_ns: int
    """When, nanoseconds since the Unix epoch."""
    conditional: bool
    """The loop completes only if the next call repeats it."""
    message: str
    """One sentence for people."""
    evidence: dict[str, Any]
    """The numbers behind it, those of `Evidence` that the rule has."""

    @classmethod
    def of(cls, d: Detection, call: int) -> Found:
        """From the detection, on that call."""
        return cls(
            rule=d.rule,
            action=d.action,
            mode=d.mode,
            call=call,
            at_ns=d.at_ns,
            conditional=d.conditional,
            message=d.message,
            evidence=d.evidence.model_dump(exclude_defaults=True),
        )


@dataclass(slots=True, frozen=True)
class ScopeFound:
    """What one rule said once about a scope that sessions share."""

    scope: str
    """The scope, such as `agent:research`."""
    rule: str
    """Name of the rule."""
    action: DetectionAction
    """What the rule asks for."""
    mode: Mode
    """Mode of the rule."""
    at_ns: int
    """When, nanoseconds since the Unix epoch."""
    message: str
    """One sentence for people."""
    evidence: dict[str, Any]
    """The numbers behind it, those of `Evidence` that the rule has."""

    @classmethod
    def of(cls, d: Detection) -> ScopeFound:
        """From the detection."""
        return cls(
            scope=d.scope,
            rule=d.rule,
            action=d.action,
            mode=d.mode,
            at_ns=d.at_ns,
            message=d.message,
            evidence=d.evidence.model_dump(exclude_defaults=True),
        )


@dataclass(slots=True)
class SessionReport:
    """What replay found out about one session."""

    session: str
    """Session id."""
    agent: str = ""
    """Agent that made its first model call."""
    first_ns: int = 0
    """End of its first model call, nanoseconds since the Unix epoch; 0: it has none."""
    last_ns: int = 0
    """End of its last one."""
    calls: int = 0
    """Model calls."""
    blocked_at: int | None = None
    """0-based index of the first model call that would not have been let through; none: all would."""
    rule: str = ""
    """Rule that would have refused it."""
    cost_nano_usd: int = 0
    """Money spent by all its calls, those after the block included, nano-dollars."""
    saved_calls: int = 0
    """Model calls from the first refused one to the session's end: what a stop would have saved."""
    saved_nano_usd: int = 0
    """Money spent by these, nano-dollars."""
    time_to_detection_s: float | None = None
    """From the beginning of what was found (`evidence.since_ns`) to the first detection that asks for a block, seconds; none
    where there is none, or its rule knows no beginning."""
    calls_to_detection: int | None = None
    """Model calls that ended meanwhile, the one on which it fired included; none likewise, and where it began too many calls
    ago."""
    detections: list[Found] = field(default_factory=list)
    """What every rule said, in order."""

    def found(self, detection: Detection, forgotten: int) -> None:
        """Take in what a rule said.

        Args:
            forgotten: model calls of the session that its state had forgotten, which the rule therefore did not count.
        """
        self.detections.append(Found.of(detection, detection.call + forgotten))

    def found_by_others(self, detection: Detection) -> None:
        """Take in what was said of it by what other sessions are, in its place; that never asks for a block."""
        at = bisect_right(self.detections, detection.at_ns, key=lambda known: known.at_ns)
        self.detections.insert(at, Found.of(detection, detection.call))

    def takes(self, other: SessionReport) -> None:
        """Take in what was counted under a trace and belongs here; it came later than what is here."""
        before = self.calls
        self.agent = self.agent or other.agent
        self.first_ns = min(self.first_ns or other.first_ns, other.first_ns or self.first_ns)
        self.last_ns = max(self.last_ns, other.last_ns)
        self.calls += other.calls
        self.cost_nano_usd += other.cost_nano_usd
        self.detections += [replace(found, call=found.call + before) for found in other.detections]
        if self.blocked_at is not None:
            self.saved_calls += other.calls
            self.saved_nano_usd += other.cost_nano_usd
        elif other.blocked_at is not None:
            self.blocked_at, self.rule = before + other.blocked_at, other.rule
            self.saved_calls, self.saved_nano_usd = other.saved_calls, other.saved_nano_usd
        if self.time_to_detection_s is None:
            self.time_to_detection_s, self.calls_to_detection = other.time_to_detection_s, other.calls_to_detection

    def stops_as(self, other: SessionReport) -> None:
        """Where it would have been stopped is where another report of it says."""
        self.blocked_at, self.rule = other.blocked_at, other.rule
        self.saved_calls, self.saved_nano_usd = other.saved_calls, other.saved_nano_usd

    def counted(self, call: Call, refused_by: str) -> None:
        """Take in a model call.

        Args:
            refused_by: rule whose decision would have refused it; empty: none would.
        """
        if not self.calls:
            self.agent, self.first_ns = call.agent, call.end_ns
        if call.end_ns > self.last_ns:
            self.last_ns = call.end_ns
        self.spent(call.cost_nano_usd, refused_by)

    def spent(self, cost_nano_usd: int, refused_by: str) -> None:
        """The same of a call of which only its cost is known."""
        if self.blocked_at is None and refused_by:
            self.blocked_at, self.rule = self.calls, refused_by
        if self.blocked_at is not None:
            self.saved_calls += 1
            self.saved_nano_usd += cost_nano_usd
        self.calls += 1
        self.cost_nano_usd += cost_nano_usd


@dataclass(slots=True)
class Report(Problems):
    """What replay found out about the recordings."""

    sessions: dict[str, SessionReport] = field(default_factory=dict)
    """By session id, in the order of their first call."""
    scopes: list[ScopeFound] = field(default_factory=list)
    """What rules said of agents, traces and teams, in order."""
    agents: list[dict[str, Any]] = field(default_factory=list)
    """What each agent came to, dearest first, with the limits recommended for its sessions."""
    models: list[dict[str, Any]] = field(default_factory=list)
    """What each model came to, dearest first."""
    budgets: list[dict[str, Any]] = field(default_factory=list)
    """The accounts of budgets in the period of their last call, the fullest first; see `core.budgets.row`."""
    coverage: Counter[str] = field(default_factory=Counter)
    """How much of the traffic the rules could see; see `COVERAGE`."""
    ingest: Counter[str] = field(default_factory=Counter)
    """What the normaliser counted: spans that made no call, by reason, and what it repaired."""
    rules: Counter[str] = field(default_factory=Counter)
    """Detections by rule."""
    modes: dict[str, str] = field(default_factory=dict)
    """Mode of each rule of the policy, leaving aside what is set for some agents, teams or tools."""
    files: int = 0
    """Files that were read to their end."""

    def to_dict(self) -> dict[str, Any]:
        """The report as it is written: what it rests on, what it comes to, then one by one."""
        return {
            "coverage": {name: self.coverage[name] for name in COVERAGE}
            | {"ingest": dict(sorted(self.ingest.items()))},
            "undecodable": self.undecodable,
            "totals": totals(self.sessions.values()),
            "rules": dict(sorted(self.rules.items())),
            "modes": self.modes,
            "by_rule": by_rule(self.sessions.values(), self.scopes),
            "sessions": [asdict(session) for session in self.sessions.values()],
            "scopes": [asdict(found) for found in self.scopes],
            "agents": self.agents,
            "models": self.models,
            "budgets": self.budgets,
        }
