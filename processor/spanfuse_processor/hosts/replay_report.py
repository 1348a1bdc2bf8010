"""What a replay reports: per session where it would have been stopped, and how much of the traffic the rules could see."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Final

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
    conditional: bool
    """The loop completes only if the next call repeats it."""
    message: str
    """One sentence for people."""


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

    @classmethod
    def of(cls, d: Detection) -> ScopeFound:
        """From the detection."""
        return cls(scope=d.scope, rule=d.rule, action=d.action, mode=d.mode, at_ns=d.at_ns, message=d.message)


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
                conditional=detection.conditional,
                message=detection.message,
            )
        )


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
    coverage: Counter[str] = field(default_factory=Counter)
    """How much of the traffic the rules could see; see `COVERAGE`."""
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
        """The report as it is written."""
        return {
            "sessions": [asdict(session) for session in self.sessions.values()],
            "coverage": {name: self.coverage[name] for name in COVERAGE}
            | {"ingest": dict(sorted(self.ingest.items()))},
            "rules": dict(sorted(self.rules.items())),
            "scopes": [asdict(found) for found in self.scopes],
            "agents": self.agents,
            "models": self.models,
            "undecodable": self.undecodable,
        }
