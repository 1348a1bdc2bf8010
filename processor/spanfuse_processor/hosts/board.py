"""What stands against whom at present, and the news of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from spanfuse_processor.exporters.events import EventLog
from spanfuse_processor.exporters.hub import Hub, Listener, frame
from spanfuse_schemas import Decision, Detection, PolicyNotice
from spanfuse_schemas.decision import State

MAX_OPEN: Final = 100_000
"""Open decisions in snapshots: as many as a Guard keeps. Beyond it the one known longest is left out; its session still
has it."""


class _Standing(NamedTuple):
    """A decision that stands, and what is told of it to each who begins to listen."""

    decision: Decision
    told: bytes


class Board:
    """The decisions that are not `allow`, by key.

    Args:
        decisions: those that stand at the start.
        hub: gets the news, as Guards hear them.
        events: gets them as well; default: one of its own.
    """

    def __init__(self, decisions: Iterable[Decision], hub: Hub, events: EventLog | None = None) -> None:
        self._hub, self._events = hub, events or EventLog()
        self._open = {d.key: _Standing(d, hub.frame("decision", d.to_json())) for d in decisions}
        self._policy = b""
        self.untold = 0
        """Decisions left out for want of room."""

    def __contains__(self, key: str) -> bool:
        return key in self._open

    def __len__(self) -> int:
        return len(self._open)

    def decisions(self) -> list[Decision]:
        """What stands at present, as it was decided."""
        return [standing.decision for standing in self._open.values()]

    def shown(self, now_ns: int) -> list[Decision]:
        """What stands at present, as people are to see it."""
        found = [shown(standing.decision, now_ns) for standing in self._open.values()]
        return [decision for decision in found if decision.action != "allow"]

    def breakers(self, now_ns: int) -> Counter[State]:
        """How many breakers are open, and how many half-open."""
        return Counter(_state(s.decision, now_ns) for s in self._open.values() if s.decision.action == "block")

    def tell(self, decisions: Iterable[Decision], detections: Iterable[Detection]) -> None:
        """Take in what was decided, and publish it: decisions first, since somebody waits for them."""
        for decision in decisions:
            self._open.pop(decision.key, None)
            data = decision.to_json()
            told = self._hub.frame("decision", data)
            if decision.action != "allow":
                self._open[decision.key] = _Standing(decision, told)
            self._hub.tell(told)
            self._events.publish("decision", data)
        for detection in detections:
            data = detection.to_json()
            self._hub.publish("detection", data)
            self._events.publish("detection", data)
        while len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]
            self.untold += 1

    def govern(self, notice: PolicyNotice) -> None:
        """Publish the policy in force."""
        data = notice.to_json()
        self._policy = self._hub.frame("policy", data)
        self._hub.tell(self._policy)
        self._events.publish("policy", data)

    def follow(self) -> tuple[list[bytes], Listener]:
        """The whole present as events, `ready` last, and a listener that is told of every change from now on.

        Raises:
            UnavailableError: if too many listen.
        """
        listener = self._hub.listen()
        return [self._policy, *(standing.told for standing in self._open.values()), frame("ready", b"{}")], listener


def shown(decision: Decision, now_ns: int) -> Decision:
    """A decision as people are to see it: an open breaker whose cooldown is over is half-open, and a budget whose period is
    over holds nobody back. Guards know that from `expires_at_ns`, and are told what was decided."""
    state = _state(decision, now_ns)
    if state == decision.state:
        return decision
    action = "allow" if state == "closed" else decision.action
    return decision.model_copy(update={"state": state, "action": action})


def _state(decision: Decision, now_ns: int) -> State:
    expires = decision.expires_at_ns
    if decision.state != "open" or expires is None or expires > now_ns:
        return decision.state
    return "closed" if decision.lapses else "half_open"
