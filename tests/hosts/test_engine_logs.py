"""An agent whose content comes as log records only is seen like any other, whether they come before or after the spans."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from spanfuse_processor.config import Config
from spanfuse_processor.exporters.hub import Hub
from spanfuse_processor.hosts.engine import Engine
from spanfuse_processor.hosts.store import Store
from spanfuse_processor.otlp.export import SignalName
from tests.otlp import test_logs
from tests.otlp.fixtures import NOW_NS, SECOND, chat, json_bytes


def played(calls: int, order: tuple[SignalName, ...]) -> tuple[dict[str, Any], list[str]]:
    """The counts, and the rules that block, after an agent that asks the same again and again."""
    engine = Engine(Config(), Store(""), Hub())

    async def play() -> None:
        for n in range(1, calls + 1):
            sent = {
                "traces": json_bytes(chat(id=n, at=5 * n, attributes={"session.id": "s"})),
                "logs": test_logs.json_bytes(
                    test_logs.asked("What is the weather?", id=n), test_logs.replied(f"answer {n}", id=n)
                ),
            }
            for signal in order:
                await engine.ingest(sent[signal], "json", NOW_NS + (5 * n + 2) * SECOND, signal)

    asyncio.run(play())
    return engine.work.counters.as_dict(), [d.rule for d in engine.work.board.decisions() if d.action == "block"]


@pytest.mark.parametrize("order", [("logs", "traces"), ("traces", "logs"), ("traces", "logs", "logs", "traces")])
def test_a_loop_that_only_logs_show_is_blocked_and_each_call_counts_once(order: tuple[SignalName, ...]) -> None:
    counts, rules = played(4, order)
    assert rules == ["repeat.prompt"]
    assert (counts["calls"], counts["cost_nano_usd"]) == (4, 4 * 21_000)
    assert counts["log_records"] == 8 * order.count("logs")
    assert counts["ingest"]["logs_joined"] >= 8


def test_without_its_logs_the_same_loop_is_not_seen() -> None:
    assert played(4, ("traces",))[1] == []
