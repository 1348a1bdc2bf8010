"""Both stages of the core, as a host runs them."""

from __future__ import annotations

from collections.abc import Iterable

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.scopes.stage import ScopeStage
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Call, CallBatch, Charge, Decision, Detection, Policy


class Fleet:
    """Sessions and scopes in memory. `decisions` and `detections` are those of scopes."""

    def __init__(self, policy: Policy) -> None:
        self.pipeline, self.stage = Pipeline(policy), ScopeStage(policy)
        self.sessions: dict[str, SessionState] = {}
        self.scopes: dict[str, ScopeState] = {}
        self.charges: list[Charge] = []
        self.decisions: list[Decision] = []
        self.detections: list[Detection] = []
        self._offset = 0

    def run(self, calls: Iterable[Call], size: int = 1) -> None:
        """Apply calls, so many to a batch."""
        waiting = list(calls)
        for start in range(0, len(waiting), size):
            batch = CallBatch(calls=tuple(waiting[start : start + size]))
            first = self.pipeline.process(batch, self._session, source="fleet", offset=self._offset)
            self._offset += 1
            self.charges += first.charges
            second = self.stage.process(first.charges, self._scope)
            self.decisions += second.decisions
            self.detections += second.detections

    def _session(self, name: str) -> SessionState:
        return self.sessions.setdefault(name, SessionState(name))

    def _scope(self, key: str) -> ScopeState:
        return self.scopes.setdefault(key, ScopeState(key))
