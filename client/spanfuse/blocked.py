"""The one exception that a Guard raises."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from spanfuse_schemas import Decision, Evidence

UNAVAILABLE: Final = "unavailable"
"""Rule of a refusal that no decision made: nothing is known at present, and `on_unavailable` is `closed`."""


class Blocked(Exception):
    """The call was refused before it left the process. Terminal: trying again cannot help before `until`.

    It derives from `Exception` alone: it is no time-out, connection or provider error, so retry helpers that list what
    they retry leave it alone. For those that ask the exception instead, `retryable` is false and `status_code` is 403, which
    no HTTP retry policy repeats. A helper that retries every `Exception` has to be told, see docs/client.md.

    Attributes:
        code: always `spanfuse_blocked`, also under subclassing or translation.
        terminal: whether it ends the session; false where only one call of a tool is refused (`ToolDenied`).
        key: the key that is blocked, such as `session:run-1`.
        scope: its scope: session, trace, agent, user, team or global.
        rule: the rule that decided, such as `repeat.prompt`; `unavailable` where `on_unavailable` decided.
        message: what happened and what to do, for people.
        evidence: the numbers behind it.
        until: when probes are let through, one by default, or, of a budget, all calls are, UTC; None: only a reset releases it.
        decision: the whole decision.
    """

    code: Final = "spanfuse_blocked"
    terminal: ClassVar[bool] = True
    retryable: Final = False
    status_code: Final = 403

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision)
        self.decision = decision
        self.key: str = decision.key
        self.scope: str = decision.key.partition(":")[0]
        self.rule: str = decision.rule
        self.message: str = decision.message
        self.evidence: Evidence = decision.evidence
        expires = decision.expires_at_ns
        self.until: datetime | None = None if expires is None else _utc(expires)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.decision,)

    def body(
        self, *, session: str | None = None, agent: str | None = None, now: datetime | None = None
    ) -> dict[str, Any]:
        """The refusal as JSON, for an answer over HTTP.

        Args:
            session: session of the call that was refused; default: that of the key.
            agent: its agent; default: that of the key.
            now: the present; default: by the clock of this machine.

        Returns:
            `error` (`spanfuse_circuit_open`, `spanfuse_budget_exceeded`, or `spanfuse_unavailable`), `agent_id`, `session_id`,
            `key`, `rule`, `state` (`open`; `half_open` while a probe is under way), `reason`, `open_until` (UTC, ISO 8601),
            `cooldown_remaining_sec` (whole seconds, at least), `message` (who, why, until when, how to release it); of a budget
            `spent`, `limit` and `unit` too. What is not known is None: `open_until` where only a reset releases it.
        """
        name = self.key.partition(":")[2]
        left = self.remaining_s(now)
        probing = left == 0 and not self.decision.lapses
        found: dict[str, Any] = {
            "error": self._error(),
            "agent_id": agent or (name if self.scope == "agent" else None),
            "session_id": session or (name if self.scope == "session" else None),
            "key": self.key,
            "rule": self.rule,
            "state": "half_open" if probing else self.decision.state,
            "reason": self.message,
            "open_until": self.until and f"{self.until:%Y-%m-%dT%H:%M:%SZ}",
            "cooldown_remaining_sec": left,
            "message": str(self),
        }
        if self._of_budget():
            of = self.evidence
            found |= {"spent": of.value, "limit": of.threshold, "unit": of.unit}
        return found

    def remaining_s(self, now: datetime | None = None) -> int | None:
        """Whole seconds until it ends by itself, at least; 0: its end has passed; None: only a reset releases it."""
        if self.until is None:
            return None
        return max(0, math.ceil((self.until - (now or datetime.now(UTC))).total_seconds()))

    def _error(self) -> str:
        if self.rule == UNAVAILABLE:
            return "spanfuse_unavailable"
        return "spanfuse_budget_exceeded" if self._of_budget() else "spanfuse_circuit_open"

    def _of_budget(self) -> bool:
        return self.rule.startswith("budget.")

    def __str__(self) -> str:
        parts = [f"{self.key} is blocked by {self.rule or 'an unnamed rule'}"]
        if self.message:
            parts[0] += f": {self.message.rstrip('.')}"
        if proof := _proof(self.evidence):
            parts.append(f"Evidence: {proof}")
        parts.append(self._release())
        return ". ".join(parts) + "."

    def _release(self) -> str:
        if self.rule == UNAVAILABLE:
            return "It passes again once the Guard hears from its subscriber (on_unavailable=closed)"
        if self.until is None:
            until = "Until it is reset"
        else:
            several = f"{self.decision.probes} probes" if self.decision.probes > 1 else "one probe"
            then = "" if self.decision.lapses else f", then {several}"
            until = f"Until {self.until:%Y-%m-%d %H:%M:%S} UTC{then}"
        return f"{until}. To release it now: spanfuse reset {self.key}"


def _utc(ns: int) -> datetime:
    """A moment, as far as datetime can say it: a breaker may be open till the year 9999 and beyond."""
    try:
        return datetime.fromtimestamp(ns / 1e9, UTC)
    except (OverflowError, OSError, ValueError):
        return datetime.max.replace(tzinfo=UTC)


def _proof(evidence: Evidence) -> str:
    """The numbers that there are, in one line."""
    unit = f" {evidence.unit}" if evidence.unit else ""
    found = []
    if evidence.count:
        found.append(f"count {evidence.count}")
    if evidence.value or evidence.threshold:
        found.append(f"{evidence.value:g} of {evidence.threshold:g}{unit}")
    if evidence.period:
        found.append(f"period {evidence.period}")
    if evidence.tool:
        found.append(f"tool {evidence.tool}")
    if evidence.cost_nano_usd:
        found.append(f"spent ${evidence.cost_nano_usd / 1e9:.4f}")
    if evidence.last_span_id:
        found.append(f"last span {evidence.last_span_id}")
    return ", ".join(found)
