"""The embedded host without its servers: a request goes through the core and into the store, then the news goes out.

Everything happens within one call, one request after the other, so there is nothing to lock and nothing half done: a
request is either in the store with all that it led to, or it has left no trace and its sender is told to send it again.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import Any, Final

from spanfuse_processor.config import Config
from spanfuse_processor.core import breaker
from spanfuse_processor.core.pipeline import Outcome, Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.errors import DecodeError, UnavailableError
from spanfuse_processor.exporters.hub import Hub
from spanfuse_processor.hosts.board import Board
from spanfuse_processor.hosts.live import LiveSessions
from spanfuse_processor.hosts.prices import prices_of
from spanfuse_processor.hosts.store import Changes, Store
from spanfuse_processor.otlp.decode import Encoding, decode
from spanfuse_processor.otlp.export import ExportResult
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_processor.telemetry import Counters
from spanfuse_schemas import CallBatch, Decision

log = logging.getLogger(__name__)

SOURCE: Final = "otlp"
"""Where the batches of this host come from."""
EXPIRE_AT_ONCE: Final = 500
"""Sessions forgotten in one transaction, some 5 ms."""
REJECTED: Final = ("invalid", "failed")
"""Reasons of the normaliser that are the sender's affair: spans without ids, and such as cannot be read."""


class Engine:
    """The core with its state.

    Args:
        config: rules and prices.
        store: state; whoever opens it closes it.
        hub: gets every decision and detection once it is stored.
    """

    def __init__(self, config: Config, store: Store, hub: Hub) -> None:
        self.store = store
        self.counters = Counters(store.totals())
        """Since the store was made, restarts included."""
        self.prices = prices_of(config.pricing)
        self.sessions = LiveSessions(store, self.counters)
        self.board = Board(store.decisions(), hub)
        self._pipeline = Pipeline(config.policy())
        self._normaliser = Normaliser(self.prices)
        self._follow_mode()

    def ingest(self, data: bytes, encoding: Encoding, received_ns: int) -> ExportResult:
        """Take a request. When this returns, its effects are stored and on their way to those who listen.

        Raises:
            DecodeError: it cannot be used and was counted; sending it again will not help.
            UnavailableError: the storage failed, and the request has left no trace; to be sent again.
        """
        try:
            return self._ingest(data, encoding, received_ns)
        except UnavailableError as error:
            self.sessions.rolled_back()
            self.counters.add({"unavailable": 1})
            if self.counters["unavailable"] == 1:
                log.error("%s; requests are sent back until it works again", error)
            raise
        except DecodeError as error:
            self._bury(data, str(error), received_ns)
            raise
        except Exception as error:  # whatever a request holds, the host goes on
            self.sessions.rolled_back()
            log.exception("a request cannot be applied; it is kept as a dead letter")
            reason = f"cannot be applied: {type(error).__name__}"
            self._bury(data, reason, received_ns)
            raise DecodeError(reason) from error

    def _ingest(self, data: bytes, encoding: Encoding, received_ns: int) -> ExportResult:
        spans = decode(data, encoding)
        before = Counter(self._normaliser.counters)
        batch = self._normaliser.batch(spans, received_ns)
        left_out = self._normaliser.counters - before
        rejected = sum(left_out[reason] for reason in REJECTED)
        outcome = self._process(batch)
        counts = {"requests": 1, "spans": len(spans), "rejected_spans": rejected} | _counts(outcome)
        self._commit(outcome, counts | {f"ingest/{reason}": n for reason, n in left_out.items()}, received_ns)
        return ExportResult(rejected, "spans without a trace or span id, or unreadable" if rejected else "")

    def _process(self, batch: CallBatch) -> Outcome:
        # Charges are the business of budgets that sessions share, and this host has none; so no offset is needed either.
        return self._pipeline.process(batch, self.sessions.load, source=SOURCE, offset=0)

    def _commit(self, outcome: Outcome, counts: dict[str, int], at_ns: int) -> None:
        self.store.commit(Changes(outcome.touched.values(), outcome.decisions, outcome.detections, counts, at_ns))
        self.sessions.committed()
        self.counters.add(counts)
        self.board.tell(outcome.decisions, outcome.detections)

    def _bury(self, data: bytes, reason: str, at_ns: int) -> None:
        try:
            self.store.bury(data, reason, at_ns, {"dead_letters": 1})
        except UnavailableError as error:
            log.warning("a dead letter could not be kept: %s", error)
        self.counters.add({"dead_letters": 1})

    def reset(self, session: str, actor: str, at_ns: int) -> Decision | None:
        """Close a session's breaker, and forget what its detectors, limits and budget have counted.

        Returns:
            The decision; none if the session is not known.

        Raises:
            UnavailableError: the storage failed; nothing is changed.
        """
        if self.sessions.known(session) is None and f"session:{session}" not in self.board:
            return None
        try:
            state = self.sessions.load(session)
            decision = self._pipeline.reset(state, at_ns, actor)
            self._commit(Outcome(decisions=[decision], touched={session: state}), {"decisions": 1}, at_ns)
        except BaseException:
            self.sessions.rolled_back()
            raise
        return decision

    def expire(self, now_ns: int) -> int:
        """Forget some sessions that were idle for too long.

        Returns:
            How many; with `EXPIRE_AT_ONCE` there may be more.
        """
        before_ns = now_ns - int(self._pipeline.policy.idle_timeout_s * 1e9)
        idle = self.store.idle(before_ns, EXPIRE_AT_ONCE)
        if not idle:
            return 0
        closed = [self._ended(session, now_ns) for session in idle if f"session:{session}" in self.board]
        counts = {"expired_sessions": len(idle), "decisions": len(closed)}
        self.sessions.forget(idle)
        self.store.forget(idle, closed, counts)
        self.counters.add(counts)
        self.board.tell(closed, ())
        return len(idle)

    def _ended(self, session: str, now_ns: int) -> Decision:
        state = self.sessions.known(session) or self.sessions.fresh(session)
        return breaker.close(state, now_ns, "The session is over.", self._pipeline.policy.mode)

    def _follow_mode(self) -> None:
        """Decisions of a run in the other mode are made anew: who goes back to `observe` wants nothing enforced."""
        mode = self._pipeline.policy.mode
        for decision in [d for d in self.board.decisions() if d.mode != mode]:
            state = self.sessions.load(decision.key.partition(":")[2])
            state.epoch = max(state.epoch, decision.epoch) + 1
            state.decision = decision.model_copy(update={"mode": mode, "epoch": state.epoch})
            self._commit(
                Outcome(decisions=[state.decision], touched={state.key: state}), {"decisions": 1}, time.time_ns()
            )

    def describe(self, session: str) -> dict[str, Any] | None:
        """What is known of a session; none if nothing is."""
        state = self.sessions.known(session)
        return _described(state) if state is not None else None


def _counts(outcome: Outcome) -> dict[str, int]:
    found = Counter(f"detections/{detection.rule}" for detection in outcome.detections)
    return {
        "calls": outcome.counted,
        "duplicates": outcome.duplicates,
        "late": outcome.late,
        "decisions": len(outcome.decisions),
        "cost_nano_usd": sum(c.cost_nano_usd for c in outcome.charges if c.scope == "global:*"),
        **found,
    }


def _described(state: SessionState) -> dict[str, Any]:
    return {
        "session": state.key,
        "calls": state.calls,
        "tools": state.tools,
        "tokens": state.tokens,
        "cost_nano_usd": state.cost_nano_usd,
        "first_ns": state.first_ns,
        "last_ns": state.last_ns,
        "epoch": state.epoch,
        "decision": state.decision.model_dump(mode="json", exclude_defaults=True) if state.decision else None,
    }
