"""The embedded host in this process: what it listens on, what it says of itself, how it starts and ends."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from spanfuse_processor.config import Config
from spanfuse_processor.errors import ConfigError, SpanfuseError, StateError
from spanfuse_processor.hosts.embedded import EmbeddedHost, every
from spanfuse_processor.telemetry import COUNTERS, FAMILIES
from spanfuse_schemas import BudgetOrder
from tests.support.loops import in_loop
from tests.support.recorded import repeater

FREE = {"endpoint": "127.0.0.1:0"}


def config(path: object = "", *, api: str = "127.0.0.1:0", **sections: Any) -> Config:
    return Config.model_validate(
        {
            "receivers": {"otlp": {"protocols": {"http": FREE, "grpc": FREE}}},
            "extensions": {"api": {"endpoint": api}, "storage": {"path": str(path)}},
            **sections,
        }
    )


async def get(port: int, path: str) -> Any:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        return (await client.get(path)).json()


async def send(port: int, *requests: dict[str, Any]) -> list[int]:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        return [(await client.post("/v1/traces", json=body)).status_code for body in requests]


@in_loop
async def test_the_status_tells_version_mode_ports_and_all_that_is_counted() -> None:
    host = EmbeddedHost(config(service={"mode": "enforce"}))
    await host.start()
    try:
        assert await send(host.http_port, *repeater(3)) == [200] * 3
        status = await get(host.api_port, "/v1/status")
    finally:
        await host.stop()
    assert (status["mode"], status["storage"], status["sessions"], status["half_open_breakers"]) == (
        "enforce",
        "memory",
        1,
        1,
    )
    assert status["ports"] == {"otlp_http": host.http_port, "otlp_grpc": host.grpc_port, "api": host.api_port}
    assert status["uptime_s"] > 0
    assert status["version"]
    assert set(status["counts"]) == {*COUNTERS, *FAMILIES}
    assert (status["counts"]["calls"], status["counts"]["detections"]) == (3, {"repeat.prompt": 1})


@in_loop
async def test_an_order_about_a_budget_is_of_now_whatever_the_operator_s_clock_says() -> None:
    host = EmbeddedHost(config(budgets={"user/daily": {"limit_steps": 5, "period": "daily"}}))
    await host.start()
    try:
        for at_ns, limit in ((1, 6), (2**63 - 1, 7)):
            order = BudgetOrder(
                id=str(at_ns), scope="user:u", budget="user/daily", action="extend", amount=1, at_ns=at_ns
            )
            done = await host.console.order(order)
            assert (done.account["limit"], done.account["period_end_ns"] > time.time_ns()) == (limit, True)
            assert [row["limit"] for row in await host.console.budgets("user:u")] == [limit]
    finally:
        await host.stop()


@in_loop
async def test_protocols_that_are_not_listed_are_not_served() -> None:
    host = EmbeddedHost(config(receivers={"otlp": {"protocols": {"http": FREE}}}))
    await host.start()
    assert host.http_port > 0
    assert host.grpc_port == 0
    await host.stop()


@in_loop
async def test_without_an_otlp_receiver_there_is_nothing_to_do() -> None:
    with pytest.raises(ConfigError, match=r"receivers\.otlp: missing"):
        await EmbeddedHost(config(receivers={})).start()


def test_a_start_that_fails_leaves_nothing_open(tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        blocker = EmbeddedHost(config())
        await blocker.start()
        with pytest.raises(SpanfuseError, match="cannot listen on"):
            await EmbeddedHost(config(tmp_path / "s.db", api=f"127.0.0.1:{blocker.api_port}")).start()
        taken = blocker.api_port
        await blocker.stop()
        free = EmbeddedHost(config(tmp_path / "s.db", api=f"127.0.0.1:{taken}"))
        await free.start()
        await free.stop()

    run()


def test_a_file_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_bytes(b"not a database" * 100)
    with pytest.raises(StateError, match="not a database"):
        asyncio.run(EmbeddedHost(config(tmp_path / "s.db")).start())


@in_loop
async def test_it_may_be_stopped_twice_and_is_not_ready_then() -> None:
    host = EmbeddedHost(config())
    assert not host.ready
    await host.start()
    assert await get(host.api_port, "/readyz") == {"ready": True}
    await host.stop()
    await host.stop()
    assert not host.ready


def test_idle_sessions_are_forgotten_by_the_host_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spanfuse_processor.hosts.embedded.EXPIRY_INTERVAL_S", 0.01)

    @in_loop
    async def run() -> None:
        host = EmbeddedHost(config(tmp_path / "s.db", service={"mode": "enforce", "idle_timeout_s": 0.2}))
        await host.start()
        try:
            await send(host.http_port, *repeater(3))
            async with asyncio.timeout(10):
                while True:
                    status = await get(host.api_port, "/v1/status")
                    if status["counts"]["expired_sessions"]:
                        break
            assert (status["sessions"], status["open_breakers"]) == (0, 0)
            assert await get(host.api_port, "/v1/decisions") == {"decisions": []}
        finally:
            await host.stop()

    run()


def test_storage_that_fails_for_a_while_costs_nobody_a_span(tmp_path: Path) -> None:
    """Another program holds a lock on the file; senders are sent back, and come again."""

    @in_loop
    async def run() -> None:
        host = EmbeddedHost(config(tmp_path / "s.db", service={"mode": "enforce"}))
        await host.start()
        try:
            other = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            assert await send(host.http_port, repeater(1)[0]) == [503]
            other.execute("ROLLBACK")
            other.close()
            assert await send(host.http_port, repeater(1)[0]) == [200]
            status = await get(host.api_port, "/v1/status")
            assert (status["counts"]["calls"], status["counts"]["unavailable"]) == (1, 1)
        finally:
            await host.stop()

    run()


def test_the_first_of_many_problems_of_the_storage_is_logged_and_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @in_loop
    async def run() -> None:
        host = EmbeddedHost(config(tmp_path / "s.db"))
        await host.start()
        other = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            assert await send(host.http_port, *repeater(3)) == [503] * 3
        finally:
            other.close()
            await host.stop()

    run()
    assert len([r for r in caplog.records if "sent back" in r.getMessage()]) == 1


@in_loop
async def test_what_is_done_from_time_to_time_goes_on_after_any_failure(caplog: pytest.LogCaptureFixture) -> None:
    turns = 0
    again = asyncio.Event()

    async def work() -> None:
        nonlocal turns
        turns += 1
        if turns < 3:
            raise ZeroDivisionError
        again.set()

    task = asyncio.create_task(every(0.001, work))
    await asyncio.wait_for(again.wait(), 10)
    task.cancel()
    assert len(caplog.records) == 1
