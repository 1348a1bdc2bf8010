"""The double of a host that others build on."""

from __future__ import annotations

import asyncio

from spanfuse_processor.api.console import Console
from spanfuse_processor.config.overlay import Overlay
from spanfuse_processor.exporters.readmodel.model import DetectionQuery, SessionQuery
from tests.support.console import FakeConsole


def test_the_double_is_a_console_and_the_same_at_every_run() -> None:
    """Two of them answer alike, page by page."""

    async def look(console: Console) -> list[object]:
        first = await console.sessions(SessionQuery(sort="cost", limit=200))
        rest = await console.sessions(SessionQuery(sort="cost", limit=200, cursor=first.next))
        assert (len(first.sessions), len(rest.sessions), rest.next) == (200, 100, "")
        return [
            first,
            rest,
            await console.session("run-00011"),
            await console.timeline("run-00011", 200),
            await console.detections(DetectionQuery(rule="cycle", limit=5)),
            await console.series("agent", "research", 60),
            await console.explain("session:run-00011"),
            await console.agents(),
            await console.models(),
            await console.budgets(),
            await console.dry_run(Overlay(mode="enforce"), 0),
        ]

    assert asyncio.run(look(FakeConsole())) == asyncio.run(look(FakeConsole()))
