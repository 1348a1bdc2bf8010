"""What is measured of a batch: each call once, however its spans come."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from spanfuse_processor.config import Config
from spanfuse_processor.errors import DecodeError
from spanfuse_processor.exporters.hub import Hub
from spanfuse_processor.hosts.engine import Engine
from spanfuse_processor.hosts.store import Store
from spanfuse_processor.telemetry.catalogue import (
    CALLS,
    COST,
    DEAD_LETTERS,
    DECISIONS,
    DELAY,
    DETECTIONS,
    STEP,
    TOKENS,
    Instrument,
)
from spanfuse_schemas import Call, CallBatch, Tokens
from tests.support.agents import prompt
from tests.support.alerting import loop
from tests.support.loops import in_loop


class Measured:
    """An engine in memory, and what it has measured.

    Args:
        settings: of `Config`.
    """

    def __init__(self, **settings: Any) -> None:
        self.engine = Engine(Config.model_validate(settings), Store(""), Hub())
        self.tallies = self.engine.work.recorder.tallies

    async def send(self, *requests: dict[str, Any]) -> None:
        for one in requests:
            await self.engine.ingest(json.dumps(one).encode(), "json", time.time_ns())

    def apply(self, *calls: Call) -> None:
        """Calls as ingest has made them."""
        work = self.engine.work
        first = work.process(CallBatch(calls=calls))
        work.commit(first, work.stage.process(first.charges, work.scopes.load), first.counts(), time.time_ns())

    def of(self, instrument: Instrument) -> dict[tuple[str, ...], float]:
        return dict(self.tallies.counted().get(instrument.name, {}))

    def times(self, instrument: Instrument) -> dict[tuple[str, ...], int]:
        return {at: sum(found.counts) for at, found in self.tallies.measured()[instrument.name].items()}


@in_loop
async def test_calls_cost_detections_and_decisions_are_told_by_who_and_why() -> None:
    measured = Measured(detectors={"cycle": {"mode": "shadow"}})
    await measured.send(*loop("run-1", 5, agent="lister", team="shop"))
    assert measured.of(CALLS) == {("llm", "lister", "shop", "gpt-4o-mini"): 5}
    ((who, usd),) = measured.of(COST).items()
    assert who == ("lister", "shop", "gpt-4o-mini", "computed")
    assert usd == pytest.approx(measured.engine.work.counters["cost_nano_usd"] / 1e9)
    assert measured.of(DETECTIONS) == {("repeat.prompt", "block", "lister"): 1}
    assert measured.of(DECISIONS) == {("repeat.prompt", "open", "block", "session"): 1}
    assert measured.times(DELAY) == {("counted",): 5, ("published",): 1}
    assert measured.times(STEP) == {("ingest",): 5, ("detect",): 5}


def test_tokens_by_class_add_up_to_all_of_them() -> None:
    measured = Measured()
    tokens = Tokens(input=1000, cache_read=600, cache_write=100, output=50, reasoning=30)
    measured.apply(prompt("a", session="s", agent="a", model="m").model_copy(update={"tokens": tokens}))
    found = {kind: n for (kind, _, _), n in measured.of(TOKENS).items()}
    assert found == {"input": 300, "cache_read": 600, "cache_write": 100, "output": 20, "reasoning": 30}


def test_a_call_that_comes_again_counts_once() -> None:
    measured = Measured()
    once = prompt("a", session="s", agent="a", cost=5)
    measured.apply(once)
    measured.apply(once)
    assert list(measured.of(CALLS).values()) == [1]


def test_a_call_whose_content_comes_later_counts_once() -> None:
    measured = Measured()
    whole = prompt("a", session="s", agent="a", cost=5)
    bare = whole.model_copy(update={"content": "structure", "input": None, "action": None})
    measured.apply(bare)
    measured.apply(whole)
    assert measured.engine.work.counters["calls"] == 1
    assert list(measured.of(CALLS).values()) == [1]
    assert sum(measured.of(COST).values()) == pytest.approx(5e-9)


def test_what_a_call_came_to_more_than_its_estimate_is_added_without_counting_it_again() -> None:
    measured = Measured()
    whole = prompt("a", session="s", agent="a", cost=500)
    guessed = whole.model_copy(
        update={"usage_estimated": True, "tokens": Tokens(input=10, output=5), "cost_nano_usd": 100}
    )
    inner = {"span_id": "f" * 16, "parent_span_id": whole.span_id}
    known = whole.model_copy(update=inner | {"tokens": Tokens(input=30, output=5)})
    measured.apply(guessed)
    measured.apply(known)
    assert measured.engine.work.counters["calls"] == 1
    assert list(measured.of(CALLS).values()) == [1]
    assert sum(measured.of(COST).values()) == pytest.approx(500e-9)
    assert sum(measured.of(TOKENS).values()) == 35
    assert measured.engine.work.counters["cost_nano_usd"] == 500


@in_loop
async def test_what_is_put_aside_is_counted_by_what_was_the_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Measured()
    work = measured.engine.work

    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError

    async def refused(data: bytes) -> None:
        with pytest.raises(DecodeError):
            await measured.engine.ingest(data, "json", time.time_ns())

    await refused(b"{")
    good = json.dumps(loop("s", 1)[0]).encode()
    with monkeypatch.context() as patched:
        patched.setattr(measured.engine._normaliser, "batch", fail)
        await refused(good)
    with monkeypatch.context() as patched:
        patched.setattr(work, "process", fail)
        await refused(good)
    assert measured.of(DEAD_LETTERS) == {("undecodable",): 1, ("unreadable",): 1, ("unapplicable",): 1}
    assert work.counters["dead_letters"] == 3
