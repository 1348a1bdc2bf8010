"""The refusal of one call of a tool."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

from spanfuse.blocked import Blocked

if TYPE_CHECKING:
    from spanfuse_schemas import Decision


class ToolDenied(Blocked):
    """A rule on tools refuses a call. It refuses the tool and not the session, which may go on with other tools: give
    `tool_result` to the model in place of what the tool would have brought.

    Attributes:
        tool: name of the tool; `key` is `tool:` and this name.
        reason: why, as the rule, whoever was asked, or the failure says; may be empty.
        rule: `tools.deny`, `tools.ask` (whoever was asked said no, or nothing), `tools.max_calls`, `tools.default` (no rule
            allows it) or `tools.failed` (a rule could not be applied).
        terminal: false.
    """

    terminal: ClassVar[bool] = False

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision)
        self.tool: str = decision.key.partition(":")[2]
        self.reason: str = decision.message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.decision,)

    @property
    def tool_result(self) -> str:
        """What to tell the model."""
        why = f": {self.reason.rstrip('.')}" if self.reason else ""
        return (
            f"The tool {self.tool} was not executed, it is not permitted{why}. Do not try it again; go on without it."
        )

    def _error(self) -> str:
        return "spanfuse_tool_denied"

    def _release(self) -> str:
        return "The session goes on: only this call of the tool is refused"


def tool_denied(tool: str, rule: str, reason: str, *, count: int = 0, now_ns: int | None = None) -> ToolDenied:
    """The exception for a refusal.

    Args:
        count: executions that the rule has let through, where it counts them.
        now_ns: nanoseconds since the Unix epoch; None: now.
    """
    from spanfuse_schemas import Decision, Evidence

    return ToolDenied(
        Decision(
            key=f"tool:{tool}",
            state="open",
            action="block",
            mode="enforce",
            rule=rule,
            message=reason,
            evidence=Evidence(tool=tool, count=count, threshold=count, value=count, unit="calls" if count else ""),
            issued_at_ns=time.time_ns() if now_ns is None else now_ns,
        )
    )
