"""What a stream deployment tells over Kafka: what stands, what was found, what operators ordered, and the policy in force."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from pydantic import ValidationError

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.scopes.stage import ScopeStage
from spanfuse_processor.errors import StateError
from spanfuse_processor.exporters.events import EventLog
from spanfuse_processor.exporters.hub import Hub
from spanfuse_processor.hosts.board import Board
from spanfuse_processor.hosts.overlaid import PolicyOrder, order_of
from spanfuse_processor.hosts.topic_tail import From
from spanfuse_schemas import POLICY_KEY, Decision, Detection, PolicyNotice
from spanfuse_schemas.budget import Audited
from spanfuse_schemas.decision import LAST_EPOCH
from spanfuse_schemas.topics import AUDIT, CONTROL, DETECTIONS, POLICY

MAX_AUDITED: Final = 10_000
"""Orders that are remembered."""


class Followed:
    """Takes records, first those that are there, then those that come.

    Args:
        hub: hears of decisions and the policy, as Guards do.
        events: hears of everything.
        policy: the policy that is taken to be in force until workers have told theirs.
    """

    def __init__(self, hub: Hub, events: EventLog, policy: PolicyNotice) -> None:
        self._hub, self._events = hub, events
        self.board = Board((), hub, events)
        """What stands."""
        self.audited: deque[Audited] = deque(maxlen=MAX_AUDITED)
        """What became of orders about budgets, as they came."""
        self.order: PolicyOrder | None = None
        """What was laid over the configuration last."""
        self.governed = asyncio.Event()
        """Set when workers tell of a policy."""
        self._decisions: dict[str, Decision] = {}
        self._began = False
        self._judge(policy)

    def _judge(self, notice: PolicyNotice) -> None:
        self.policy = notice
        self.pipeline, self.stage = Pipeline(notice.policy), ScopeStage(notice.policy)

    def begin(self) -> None:
        """All that was there is taken: from now on it is news."""
        self.board = Board(self._decisions.values(), self._hub, self._events)
        self.board.govern(self.policy)
        self._began = True
        self._decisions.clear()

    def take(self, record: Any) -> None:
        """A record of one of the topics; one that cannot be read is of another build."""
        with suppress(ValidationError, StateError):
            if record.topic == DETECTIONS:
                self.board.tell((), [Detection.from_json(record.value or b"")])
            elif record.topic == AUDIT:
                self.audited.append(Audited.from_json(record.value or b""))
                if self._began:
                    self._events.publish("audit", self.audited[-1].to_json())
            elif record.topic == POLICY:
                self.order = order_of(record.value)
            elif record.key == POLICY_KEY.encode():
                self._govern(PolicyNotice.from_json(record.value or b""))
            else:
                self._decided(record)

    def _govern(self, notice: PolicyNotice) -> None:
        if notice.epoch < self.policy.epoch and self._began:
            return
        self._judge(notice)
        self.governed.set()
        if self._began:
            self.board.govern(notice)

    def _decided(self, record: Any) -> None:
        key = (record.key or b"").decode("utf-8", "replace")
        if record.value:
            decision: Decision = Decision.from_json(record.value)
        else:  # a tombstone: whatever stood against the key stands no more
            decision = Decision(key=key, state="closed", issued_at_ns=record.timestamp * 10**6, epoch=LAST_EPOCH)
        if self._began:
            self.board.tell([decision], ())
        elif decision.action == "allow":
            self._decisions.pop(key, None)
        else:
            self._decisions[key] = decision


def topics(partitions: int) -> Mapping[str, tuple[int, From]]:
    """What is followed, and from where on."""
    whole: dict[str, tuple[int, From]] = dict.fromkeys((CONTROL, AUDIT, POLICY), (1, "beginning"))
    return {**whole, DETECTIONS: (partitions, "end")}
