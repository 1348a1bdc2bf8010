"""What `safety_drift` remembers of a session."""

from __future__ import annotations

from collections.abc import Iterable


class Strayed:
    """The agents whose conversations have left their topic."""

    __slots__ = ("agents",)

    def __init__(self, agents: Iterable[str] = ()) -> None:
        self.agents = list(agents)
