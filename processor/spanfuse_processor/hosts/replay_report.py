"""What a replay reports: how much of the traffic the rules could see, and per session where it would have been stopped.

What the sessions add up to is in `replay_totals`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from spanfuse_processor.hosts.replay_totals import by_rule, totals
from spanfuse_schemas import Call, Detection
from spanfuse_schemas.detection import DetectionAction, Mode

MAX_PROBLEMS: Final = 20
"""Problems that are told one by one; all are counted."""

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
        self.detections.append(
            Found(
                rule=detection.rule,
                action=detection.action,
                mode=detection.mode,
                call=detection.call + forgotten,
                at_ns=detection.at_ns,
                conditional=detection.conditional,
                message=detection.message,
                evidence=detection.evidence.model_dump(exclude_defaults=True),
            )
        )

    def takes(self, other: SessionReport) -> None:
        """Take in what was counted under a trace and belongs here; it came later than what is here."""
        before = self.calls
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

    def counted(self, cost_nano_usd: int, refused_by: str) -> None:
        """Take in a model call.

        Args:
            refused_by: rule whose decision would have refused it; empty: none would.
        """
        if self.blocked_at is None and refused_by:
            self.blocked_at, self.rule = self.calls, refused_by
        if self.blocked_at is not None:
            self.saved_calls += 1
            self.saved_nano_usd += cost_nano_usd
        self.calls += 1
        self.cost_nano_usd += cost_nano_usd


@dataclass(slots=True)
class Report:
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
    undecodable: int = 0
    """Requests that could not be decoded, and files that could not be read to their end."""
    problems: list[str] = field(default_factory=list)
    """The first of those, with file and line."""

    def cover(self, call: Call) -> None:
        """Note what a counted call has."""
        coverage = self.coverage
        coverage["calls"] += 1
        coverage["with_session"] += call.session_source != "trace"
        coverage["with_content"] += call.content != "structure"
        if call.kind == "tool":
            coverage["tool_calls"] += 1
            return
        coverage["llm_calls"] += 1
        coverage["with_usage"] += not call.usage_estimated and call.tokens.input + call.tokens.output > 0
        coverage["with_price"] += call.cost_source in ("reported", "computed")

    def fail(self, where: str, why: str) -> None:
        """Note what could not be read."""
        self.undecodable += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"{where}: {why}")

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
