"""The API of a real `spanfuse up` in this process: what is answered of real calls, and orders that reach a Guard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from spanfuse import Guard
from spanfuse.testing import is_blocked
from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.hosts.embedded import EmbeddedHost
from tests.hosts.test_embedded import config, send
from tests.support.api import ADMIN, OPERATE, READ, SETTINGS, bearer
from tests.support.loops import in_loop, until
from tests.support.measured import samples, value
from tests.support.openapi import Document
from tests.support.recorded import repeater

BUDGETS = {"user/daily": {"limit_usd": 5, "period": "daily"}, "global/daily": {"limit_usd": 50, "period": "daily"}}
APART = {"/v1/events", "/v1/decisions/stream", "/metrics", "/v1/alerts"}


@asynccontextmanager
async def running(**sections: Any) -> AsyncIterator[tuple[EmbeddedHost, httpx.AsyncClient]]:
    """A host with one session that was stopped, and a client of its API."""
    host = EmbeddedHost(config(service={"mode": "enforce"}, budgets=BUDGETS, **sections))
    await host.start()
    try:
        assert await send(host.http_port, *repeater(4)) == [200] * 4
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{host.api_port}", trust_env=False) as client:
            yield host, client
    finally:
        await host.stop()


@in_loop
async def test_each_answer_has_the_shape_that_the_document_promises() -> None:
    async with running() as (_, client):
        document = Document((await client.get("/openapi.json")).json())
        session = (await client.get("/v1/sessions")).json()["sessions"][0]["session"]
        for path, methods in document.paths.items():
            if "get" in methods and path not in APART:
                asked = path.replace("{session}", session).replace("{key}", f"session:{session}")
                response = await client.get(asked)
                assert response.status_code == 200, path
                document.check("get", path, response.json())


@in_loop
async def test_a_session_that_was_stopped_is_told_with_its_steps_and_why() -> None:
    async with running() as (_, client):
        (row,) = (await client.get("/v1/sessions?state=half_open")).json()["sessions"]
        assert (row["calls"], row["rule"], row["mode"]) == (4, "repeat.prompt", "enforce")
        told = (await client.get(f"/v1/sessions/{row['session']}/timeline")).json()
        assert [step["loop"] for step in told["steps"]] == [1, 1, 1, 1]
        assert [step["decision"] for step in told["steps"]] == ["", "", "block", ""]
        assert [found["rule"] for found in told["detections"]] == ["repeat.prompt"]
        assert [decided["action"] for decided in told["decisions"]] == ["block"]
        why = (await client.get(f"/v1/explain/session:{row['session']}")).json()
        assert why["rules"][0]["stands"] is True
        measured = samples((await client.get("/metrics")).text)
        assert value(measured, "spanfuse_detections_total", rule="repeat.prompt", action="block") == 1


@in_loop
async def test_a_reset_over_the_api_reaches_a_guard_within_a_second() -> None:
    async with running(extensions=_with_tokens()) as (host, client):
        session = (await client.get("/v1/sessions", headers=bearer(READ))).json()["sessions"][0]["session"]
        with Guard(f"http://127.0.0.1:{host.api_port}", token=READ) as guard:
            await asyncio.to_thread(guard.wait_ready, 10)
            body = {"key": f"session:{session}"}
            assert (await client.post("/v1/reset", json=body, headers=bearer(READ))).status_code == 403
            assert (await client.post("/v1/reset", json=body, headers=bearer(OPERATE))).status_code == 200
            async with asyncio.timeout(1):
                await until(lambda: not is_blocked(guard, session=session))


@in_loop
async def test_a_guard_without_a_token_hears_nothing_where_tokens_are_set() -> None:
    async with running(extensions=_with_tokens()) as (host, _):
        with Guard(f"http://127.0.0.1:{host.api_port}", token="wrong-" + "w" * 16) as guard:
            assert not await asyncio.to_thread(guard.wait_ready, 0.5)
            assert guard.state == "connecting"


@in_loop
async def test_orders_about_budgets_and_the_policy_hold_at_once_and_name_the_token() -> None:
    async with running(extensions=_with_tokens()) as (host, client):
        order = {
            "scope": "user:u",
            "budget": "user/daily",
            "amount": 7_000_000_000,
            "actor": "alice",
            "reason": "launch",
        }
        done = (await client.put("/v1/budgets", json=order, headers=bearer(OPERATE))).json()
        assert (done["done"], done["account"]["limit"]) == (True, 7_000_000_000)
        (told,) = (await client.get("/v1/budgets/audit", headers=bearer(READ))).json()["audit"]
        assert (told["order"]["actor"], told["order"]["reason"]) == ("alice (oncall)", "launch")
        change = {"overlay": {"mode": "observe"}, "reason": "too many blocks"}
        assert (await client.put("/v1/policy", json=change, headers=bearer(ADMIN))).json()["policy"].get("mode") is None
        assert host.policy.policy.mode == "observe"
        laid = (await client.get("/v1/policy/overlay", headers=bearer(READ))).json()["overlay"]
        assert (laid["overlay"], laid["actor"], laid["reason"]) == ({"mode": "observe"}, "root", "too many blocks")


@in_loop
async def test_a_dry_run_tells_what_other_rules_would_have_stopped() -> None:
    async with running() as (_, client):
        trial = {"overlay": {"detectors": {"repeat.prompt": {"count": 30}}}}
        found = (await client.post("/v1/policy/dry-run", json=trial)).json()
        assert found["calls"] == 4
        assert [stop["rule"] for stop in found["stopped_by_old_only"]] == ["repeat.prompt"]
        assert found["stopped_by_new_only"] == []


def _with_tokens() -> dict[str, Any]:
    tokens = [t.model_dump() | {"token": t.token.get_secret_value()} for t in SETTINGS.tokens]
    return {"api": {"endpoint": "127.0.0.1:0", "tokens": tokens}, "storage": {"path": ""}}


@in_loop
async def test_metrics_are_told_while_the_storage_is_away_but_for_what_only_it_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away(*_: Any) -> Any:
        raise UnavailableError("the storage is away")

    async with running() as (host, client):
        monkeypatch.setattr(host.engine.work.store, "entries", away)
        found = samples((await client.get("/metrics")).text)
    assert value(found, "spanfuse_calls_total") == 4
    assert value(found, "spanfuse_half_open_breakers", scope="session") == 1
    assert not any(name == "spanfuse_state_entries" for name, _ in found)
