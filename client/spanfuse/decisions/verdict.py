"""What `Guard.check` answers when it does not refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spanfuse_schemas import Decision


class Verdict:
    """The call may be made.

    Attributes:
        allowed: always true; a refusal is the exception `Blocked`.
        would_block: a block applies, but it is only observed (mode `observe`), not enforced.
        nudge: text to add to the conversation before the call; empty for none. It is the same on every check while the
            decision lasts: add it once per `(decision.key, decision.epoch)`.
        decision: the decision behind `would_block`, else the one behind `nudge`, else None.
    """

    __slots__ = ("allowed", "decision", "nudge", "would_block")

    def __init__(self, *, would_block: bool = False, nudge: str = "", decision: Decision | None = None) -> None:
        self.allowed = True
        self.would_block = would_block
        self.nudge = nudge
        self.decision = decision

    def __bool__(self) -> bool:
        return self.allowed

    def __repr__(self) -> str:
        key = self.decision.key if self.decision else None
        return f"Verdict(allowed={self.allowed}, would_block={self.would_block}, nudge={self.nudge!r}, key={key!r})"


ALLOWED: Final = Verdict()
"""Nothing applies: one shared object, so that the usual answer costs no allocation."""
