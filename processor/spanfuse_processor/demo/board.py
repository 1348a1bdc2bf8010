"""What the demo knows of its agents, and whether they ended as they must."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from spanfuse_processor.demo.scenarios import SCENARIOS, Scenario

State = Literal["starting", "ready", "running", "stopped", "finished", "failed"]
ENDED: Final = ("stopped", "finished", "failed")


@dataclass(slots=True)
class Row:
    """One agent as it is shown."""

    scenario: Scenario
    state: State = "starting"
    calls_allowed: int = 0
    """Model calls that the Guard let through."""
    rule: str = ""
    """Rule that stopped it."""
    message: str = ""
    """What the rule said, or what went wrong."""
    cost_nano_usd: int = 0
    """Money it has spent by the processor's count, nano-dollars."""

    def apply(self, event: dict[str, Any]) -> None:
        """Take in what the agent told."""
        kind = event["event"]
        if kind == "ready":
            self.state = "ready"
        elif kind == "call":
            self.state, self.calls_allowed = "running", event["allowed"]
        elif kind == "blocked":
            self.state, self.rule, self.message = "stopped", event["rule"], event["message"]
        elif kind == "finished":
            self.state = "finished"
        elif self.state not in ENDED:
            self.state, self.message = "failed", event["message"]

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ENDED

    def difference(self) -> str | None:
        """What is not as it must be, in one line; none if all is right."""
        name, wanted = self.scenario.name, self.scenario.stopped_by
        if self.state == "failed" or not self.ended:
            return f"{name}: {self.message or 'did not end in time'}"
        if wanted is None and self.state != "finished":
            return f"{name}: was stopped by {self.rule}, and should have finished"
        if wanted is not None and self.state != "stopped":
            return f"{name}: finished after {self.calls_allowed} calls, and should have been stopped by {wanted}"
        if wanted is not None and self.rule != wanted:
            return f"{name}: was stopped by {self.rule}, and should have been by {wanted}"
        return None


class Board:
    """All agents."""

    def __init__(self) -> None:
        self.rows = {scenario.name: Row(scenario) for scenario in SCENARIOS}

    def __iter__(self) -> Any:
        return iter(self.rows.values())

    @property
    def ended(self) -> bool:
        """Whether every agent has ended."""
        return all(row.ended for row in self)

    def differences(self) -> list[str]:
        """What is not as it must be, a line each."""
        return [line for row in self if (line := row.difference()) is not None]

    def outcome(self) -> dict[str, Any]:
        """The result as it is printed by `--format json`."""
        return {
            "agents": [
                {
                    "name": row.scenario.name,
                    "calls_allowed": row.calls_allowed,
                    "blocked_by": row.rule or None,
                    "finished": row.state == "finished",
                }
                for row in self
            ]
        }
