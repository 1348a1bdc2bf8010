"""The core with its state, in one process: what it leads to is stored together or not at all, and then told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from spanfuse_processor.config import Config
from spanfuse_processor.core.pipeline import Outcome, Pipeline
from spanfuse_processor.core.scopes.stage import ScopeOutcome, ScopeStage
from spanfuse_processor.exporters.events import EventLog
from spanfuse_processor.exporters.hub import Hub
from spanfuse_processor.exporters.readmodel.facts import Facts
from spanfuse_processor.hosts.board import Board
from spanfuse_processor.hosts.facts import facts_of, rows_of, scope_facts
from spanfuse_processor.hosts.live import LiveScopes, LiveSessions
from spanfuse_processor.hosts.recorder import Recorder
from spanfuse_processor.hosts.store import Changes, Store
from spanfuse_processor.telemetry import Counters
from spanfuse_schemas import CallBatch

SOURCE: Final = "otlp"
"""Where the batches of this host come from."""


class Workspace:
    """Both stages of the core, the states at work, and the store that has all of them.

    Args:
        config: the rules.
        store: whoever opens it closes it.
        hub: gets every decision and detection once it is stored.
        recorder: measures the work.
    """

    def __init__(self, config: Config, store: Store, hub: Hub, recorder: Recorder | None = None) -> None:
        self.store = store
        self.recorder = recorder or Recorder()
        self.counters = Counters(store.totals())
        """Since the store was made, restarts included."""
        self.sessions = LiveSessions(store, self.counters)
        self.scopes = LiveScopes(store, self.counters)
        self.events = EventLog()
        """All that happens, for those who watch."""
        self.changed: set[str] = set()
        """Sessions that have changed since those who watch were told."""
        self.board = Board(store.decisions(), hub, self.events)
        self.pipeline = Pipeline(config.policy())
        self.stage = ScopeStage(config.policy())
        self.due: dict[str, int] = {}
        """Key → when something of its budgets changes by itself, nanoseconds since the Unix epoch."""

    def process(self, batch: CallBatch) -> Outcome:
        """What a batch leads to in its sessions. If it is rolled back it was not counted either: its number is used again."""
        return self.pipeline.process(batch, self.sessions.load, source=SOURCE, offset=self.counters["batches"])

    @contextmanager
    def together(self) -> Iterator[None]:
        """Around work that ends with `commit`: nothing of it stays if it fails."""
        try:
            yield
        except BaseException:
            self.rolled_back()
            raise

    def commit(self, first: Outcome, second: ScopeOutcome, counts: dict[str, int], at_ns: int) -> None:
        """Store what sessions and scopes came to, and tell of it.

        Args:
            counts: what is added to the counters.
            at_ns: now, nanoseconds since the Unix epoch.

        Raises:
            UnavailableError: the storage failed; the caller rolls back.
        """
        decisions, detections = first.decisions + second.decisions, first.detections + second.detections
        scopes = [(state, at_ns + self.stage.kept_ns(state)) for state in second.touched.values()]
        audited = [ordered.audited() for ordered in (*first.orders, *second.orders)]
        facts = self._facts(first, second)
        self.store.commit(
            Changes(first.touched.values(), decisions, detections, counts, at_ns, scopes, audited, facts, first.steps)
        )
        self._note_due(first, second)
        self.sessions.committed()
        self.scopes.committed()
        self.counters.add(counts)
        self.board.tell(decisions, detections)
        self.recorder.counted(first)
        self.recorder.found(decisions, detections)
        self.changed.update(row.session for row in facts.rows)
        for one in audited:
            self.events.publish("audit", one.to_json())

    def _facts(self, first: Outcome, second: ScopeOutcome) -> Facts:
        mode = self.pipeline.policy.mode
        facts = scope_facts(second, mode, facts_of(first, mode))
        facts.rows = rows_of(first.touched.values())
        return facts

    def rolled_back(self) -> None:
        """Work has failed: the store is the truth for all that it has loaded."""
        self.sessions.rolled_back()
        self.scopes.rolled_back()

    def _note_due(self, first: Outcome, second: ScopeOutcome) -> None:
        due = {key: scope.due_ns() for key, scope in second.touched.items()}
        for name, session in first.touched.items():
            held = session.decision
            due[f"session:{name}"] = (held.expires_at_ns or 0) if held is not None and held.lapses else 0
        for key, at_ns in due.items():
            if at_ns:
                self.due[key] = at_ns
            else:
                self.due.pop(key, None)


def told(first: Outcome, second: ScopeOutcome) -> dict[str, int]:
    """What is counted of decisions and detections."""
    found = Counter(f"detections/{detection.rule}" for detection in (*first.detections, *second.detections))
    return {"decisions": len(first.decisions) + len(second.decisions), **found, **second.reports}
