"""What the alerts need of a host: the part of `api.console.Console` that they look at."""

from __future__ import annotations

from typing import Any, Protocol

from spanfuse_processor.exporters.news import Teller
from spanfuse_processor.exporters.readmodel.model import (
    DetectionPage,
    DetectionQuery,
    MinuteRow,
    SeriesKind,
    SessionPage,
    SessionQuery,
)
from spanfuse_schemas import Decision, PolicyNotice


class Source(Teller, Protocol):
    """The host. Any method may raise `SpanfuseError`: it cannot be told now."""

    @property
    def policy(self) -> PolicyNotice:
        """The policy in force."""

    @property
    def live(self) -> bool:
        """Whether it makes progress."""

    async def status(self) -> dict[str, Any]:
        """Counts."""

    async def sessions(self, query: SessionQuery) -> SessionPage:
        """Sessions."""

    async def detections(self, query: DetectionQuery) -> DetectionPage:
        """What rules found."""

    def decisions(self) -> list[Decision]:
        """What stands at present."""

    async def agents(self) -> list[dict[str, Any]]:
        """What each agent came to."""

    async def series(self, kind: SeriesKind, name: str, minutes: int) -> list[MinuteRow]:
        """The last minutes."""

    async def budgets(self, scope: str = "") -> list[dict[str, Any]]:
        """The accounts of a scope."""
