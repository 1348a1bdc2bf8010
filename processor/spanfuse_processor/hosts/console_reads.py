"""What a console answers from the read model alone, whichever host it is of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from spanfuse_processor.api.console import Explanation, SessionDetail
from spanfuse_processor.exporters.readmodel.model import (
    DetectionPage,
    DetectionQuery,
    MinuteRow,
    ReadModel,
    SeriesKind,
    SessionPage,
    SessionQuery,
    SessionRow,
    StepRow,
)
from spanfuse_schemas import Decision


class ConsoleReads(ABC):
    """The questions of `api.console.Console` that both hosts answer alike."""

    @property
    @abstractmethod
    def _rows(self) -> ReadModel:
        """Where the rows are."""

    @abstractmethod
    async def _explained(self, key: str, row: SessionRow | None) -> Explanation:
        """What is counted about a key, by the state; with the row of a session."""

    @abstractmethod
    async def _accounts(self, session: str) -> list[dict[str, Any]]:
        """The accounts of a session in the periods that run."""

    async def sessions(self, query: SessionQuery) -> SessionPage:
        """Sessions as they are listed."""
        return await self._rows.sessions(query)

    async def session(self, session: str) -> SessionDetail | None:
        """One session."""
        row = await self._rows.session(session)
        if row is None:
            return None
        accounts = await self._accounts(session)
        found = await self._explained(f"session:{session}", row)
        return SessionDetail(**row.model_dump(), decision=found.decision, budgets=tuple(accounts))

    async def explain(self, key: str) -> Explanation:
        """What is counted about a key, and why it did or did not trip."""
        kind, _, name = key.partition(":")
        return await self._explained(key, await self._rows.session(name) if kind == "session" else None)

    async def timeline(self, session: str, limit: int) -> list[StepRow]:
        """The last steps of a session."""
        return await self._rows.timeline(session, limit)

    async def detections(self, query: DetectionQuery) -> DetectionPage:
        """What rules found."""
        return await self._rows.detections(query)

    async def history(self, key: str, limit: int) -> list[Decision]:
        """What was decided about a key."""
        return await self._rows.history(key, limit)

    async def series(self, kind: SeriesKind, name: str, minutes: int) -> list[MinuteRow]:
        """The last minutes."""
        return await self._rows.series(kind, name, minutes)
