"""Parents that end last, in the embedded host: what they say of earlier calls is neither lost nor said of another time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spanfuse_processor.config import Config
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.exporters.hub import Hub
from spanfuse_processor.hosts.aside import LARGE_BYTES
from spanfuse_processor.hosts.engine import PART, Engine
from spanfuse_processor.hosts.store import Changes, Store
from spanfuse_processor.otlp.export import SignalName
from spanfuse_schemas import CallBatch
from tests.otlp import test_logs
from tests.otlp.fixtures import NOW_NS, SECOND, chat, json_bytes, span

DAY_NS = 24 * 3600 * SECOND


class Host:
    """An engine with a budget for each user."""

    def __init__(self, path: Path) -> None:
        self.store = Store(str(path))
        self.config = Config.model_validate({"budgets": {"user": {"limit_steps": 5, "period": "daily"}}})
        self.engine = Engine(self.config, self.store, Hub())

    async def take(self, data: bytes, signal: SignalName = "traces") -> None:
        await self.engine.ingest(data, "json", NOW_NS + 100 * SECOND, signal)

    def send(self, data: bytes, signal: SignalName = "traces") -> None:
        asyncio.run(self.take(data, signal))

    def charged(self) -> tuple[int, int]:
        """Calls of the session, and of the user."""
        session = self.engine.work.sessions.known("s")
        (account,) = self.engine.views.accounts("user:u", NOW_NS)
        return session.calls if session is not None else 0, account["spent"]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path / "spanfuse.db")
    yield made
    made.store.close()


def agent(**more: Any) -> Any:
    known = {"gen_ai.operation.name": "invoke_agent", "session.id": "s", "user.id": "u"}
    return span(known, id=1, lasts=90, name="invoke_agent guide", kind=1, **more)


def full(changes: Changes) -> None:
    raise UnavailableError("storage x: database or disk is full")


def test_what_a_parent_says_outlives_a_storage_that_does_not_take_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.send(json_bytes(chat(id=10, parent=1, at=1), chat(id=11, parent=1, at=2)))
    with monkeypatch.context() as patch:
        patch.setattr(host.store, "commit", full)
        for _ in range(3):
            with pytest.raises(UnavailableError):
                host.send(json_bytes(agent()))
    for _ in range(2):
        host.send(json_bytes(agent()))
    assert host.charged() == (2, 2)


def test_content_that_was_logged_outlives_it_too(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in (1, 2, 3):
        host.send(json_bytes(chat(id=n, at=5 * n, attributes={"session.id": "s"})))
        said = test_logs.json_bytes(test_logs.asked("And now?", id=n), test_logs.replied(f"answer {n}", id=n))
        with monkeypatch.context() as patch:
            patch.setattr(host.store, "commit", full)
            with pytest.raises(UnavailableError):
                host.send(said, "logs")
        host.send(said, "logs")
    assert [d.rule for d in host.engine.work.board.decisions() if d.action == "block"] == ["repeat.prompt"]
    assert host.charged()[0] == 3


@pytest.mark.parametrize("size", [0, LARGE_BYTES])
def test_what_a_parent_says_outlives_a_sender_that_gives_up(host: Host, size: int) -> None:
    host.send(json_bytes(chat(id=10, parent=1, at=1), chat(id=11, parent=1, at=2)))
    others = [chat(id=100 + n, trace="1" * 32, at=3) for n in range(2 * PART + 1)]
    data = json_bytes(agent(), *others) + b" " * size

    async def give_up_and_come_again() -> None:
        first = asyncio.create_task(host.take(data))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        first.cancel()
        await host.take(data)
        assert first.cancelled()

    asyncio.run(give_up_and_come_again())
    assert host.charged() == (2, 2)


def test_calls_that_cannot_be_applied_do_not_take_what_a_parent_says_with_them(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.send(json_bytes(chat(id=10, parent=1, at=1)))
    process = Pipeline.process

    def fragile(self: Pipeline, batch: CallBatch, *args: Any, **more: Any) -> Any:
        if any(call.session == "bad" for call in batch.calls):
            raise ValueError("cannot be applied")
        return process(self, batch, *args, **more)

    monkeypatch.setattr(Pipeline, "process", fragile)
    host.send(json_bytes(agent(), chat(id=12, trace="1" * 32, attributes={"session.id": "bad"})))
    assert host.charged() == (1, 1)
    assert host.engine.work.counters["unapplied_calls"] == 1


@pytest.mark.parametrize("end_ns", [1, NOW_NS - 2 * DAY_NS, NOW_NS + 2 * DAY_NS, 2**63 - 1, 2**64 - 1])
def test_the_wrong_clock_of_a_parent_moves_neither_its_user_s_day_nor_what_was_spent_in_it(
    host: Host, end_ns: int
) -> None:
    host.send(json_bytes(chat(id=10, parent=1, at=1), chat(id=11, parent=1, at=2)))
    wrong = agent()
    wrong.start_ns, wrong.end_ns = max(0, end_ns - 90 * SECOND), end_ns
    host.send(json_bytes(wrong))
    host.send(json_bytes(*(chat(id=20 + n, parent=1, at=3 + n) for n in range(3))))
    assert host.charged() == (5, 5)
    assert "user:u" in [d.key for d in host.engine.work.board.decisions() if d.action == "block"]
