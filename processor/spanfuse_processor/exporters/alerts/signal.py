"""What may lead to an alert, in the one form that all sources of it come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from spanfuse_processor.exporters.alerts.model import Severity
from spanfuse_schemas import Evidence

NOTHING: Final = Evidence()


@dataclass(frozen=True, slots=True)
class Signal:
    """Something happens. Times are nanoseconds since the Unix epoch."""

    rule: str
    key: str
    severity: Severity
    title: str
    message: str
    at_ns: int
    level: float = 0
    """How bad it is: what is worse is told again within the same window."""
    agent: str = ""
    user: str = ""
    team: str = ""
    session: str = ""
    cost_nano_usd: int = 0
    action: Literal["", "warn", "nudge", "block"] = ""
    mode: Literal["", "observe", "enforce"] = ""
    evidence: Evidence = NOTHING
    limit: float = 0
    expires_at_ns: int | None = None
    """Until when what was decided holds."""
    lapses: bool = False
    """Then it is over, without further news."""
    holds: bool = False
    """Something was decided about the key: it is over when that is, not when nothing more is seen."""
    window_end_ns: int | None = None
    """End of the window in which it is told once, such as the period of a budget; none: `window_s` from now on. What ends with
    its window is not over before."""
    release: str = ""


@dataclass(frozen=True, slots=True)
class Over:
    """It is over."""

    key: str
    at_ns: int
    rule: str = ""
    """Of this rule alone; empty: all that was decided about the key."""
    rearm: bool = False
    """Somebody ended it: should it come again, it is told again, also within the same window."""
    budget: bool = False
    """Of a budget's warnings, too: its limit was changed."""
