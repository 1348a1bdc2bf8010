"""What stands against whom at present, and the news of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from spanfuse_processor.exporters.hub import Hub, Listener, frame
from spanfuse_schemas import Decision, Detection

MAX_OPEN: Final = 100_000
"""Open decisions in snapshots: as many as a Guard keeps. Beyond it the one known longest is left out; its session still
has it."""


class Board:
    """The decisions that are not `allow`, by key.

    Args:
        decisions: those that stand at the start.
        hub: gets the news.
    """

    def __init__(self, decisions: Iterable[Decision], hub: Hub) -> None:
        self._open = {decision.key: decision for decision in decisions}
        self._hub = hub
        self.untold = 0
        """Decisions left out for want of room."""

    def __contains__(self, key: str) -> bool:
        return key in self._open

    def __len__(self) -> int:
        return len(self._open)

    def decisions(self) -> list[Decision]:
        """What stands at present."""
        return list(self._open.values())

    def breakers(self) -> int:
        """How many breakers are open."""
        return sum(decision.action == "block" for decision in self._open.values())

    def tell(self, decisions: Iterable[Decision], detections: Iterable[Detection]) -> None:
        """Take in what was decided, and publish it: decisions first, since somebody waits for them."""
        for decision in decisions:
            self._open.pop(decision.key, None)
            if decision.action != "allow":
                self._open[decision.key] = decision
            self._hub.publish("decision", decision.to_json())
        for detection in detections:
            self._hub.publish("detection", detection.to_json())
        while len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]
            self.untold += 1

    def follow(self) -> tuple[list[bytes], Listener]:
        """The whole present as events, `ready` last, and a listener that is told of every change from now on.

        Raises:
            UnavailableError: if too many listen.
        """
        listener = self._hub.listen()
        present = [frame("decision", decision.to_json()) for decision in self._open.values()]
        return [*present, frame("ready", b"{}")], listener
