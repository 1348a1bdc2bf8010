"""The alerts of a host, end to end within one process: from spans to what a receiver gets."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from spanfuse_processor.config import Config
from spanfuse_processor.errors import QueryError
from spanfuse_processor.exporters.alerts.model import AlertQuery
from spanfuse_processor.exporters.alerts.service import AlertService
from spanfuse_processor.hosts.embedded import EmbeddedHost
from spanfuse_schemas import BudgetOrder
from tests.support import alert_servers
from tests.support.alerting import call, delays, loop
from tests.support.hosts import free_port
from tests.support.loops import in_loop
from tests.support.stream import until

KEY = "0123456789abcdef0123456789abcdef"
QUIET = {"spike": {"enabled": False}, "silence": {"enabled": False}, "block_rate": {"enabled": False}}


def config(folder: Path, receivers: dict[str, Any], more: dict[str, Any] | None = None, **sections: Any) -> Config:
    alerts = {"receivers": receivers, "watch": QUIET, "timeout_s": 0.5, **(more or {})}
    made = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": "127.0.0.1:0"}}}},
        "extensions": {"api": {"endpoint": "127.0.0.1:0"}, "storage": {"path": str(folder / "spanfuse.db")}},
        "service": {"mode": "enforce"},
        "exporters": {"alerts": alerts},
    }
    return Config.model_validate(made | sections)


class Running:
    """A host with alerts."""

    def __init__(self, host: EmbeddedHost) -> None:
        self.host = host
        assert host.outgoing is not None
        assert host.outgoing.alerts is not None
        self.alerts: AlertService = host.outgoing.alerts

    async def send(self, *requests: dict[str, Any]) -> None:
        """Spans."""
        for one in requests:
            await self.host.engine.ingest(json.dumps(one).encode(), "json", time.time_ns())

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what receivers get."""
        await until(condition, str(self.alerts.status()), 10, 0.01)


@asynccontextmanager
async def running(made: Config) -> AsyncIterator[Running]:
    host = EmbeddedHost(made)
    await host.start()
    try:
        yield Running(host)
    finally:
        await host.stop()


@in_loop
async def test_a_session_that_is_stopped_is_one_incident_that_ends_with_its_reset(tmp_path: Path) -> None:
    """Slack and PagerDuty are told once, with who and how to release it; the restart in between tells nobody twice."""
    with (
        alert_servers.served(alert_servers.slack) as slack,
        alert_servers.served(alert_servers.pagerduty, 202) as pager,
    ):
        made = config(tmp_path, {"slack": {"url": slack.url}, "pagerduty": {"routing_key": KEY, "url": pager.url}})
        async with running(made) as up:
            await up.send(*loop("run-9", 6))
            await up.until(lambda: len(slack.bodies) == 1 and len(pager.bodies) == 1)
            assert "spanfuse reset session:run-9" in json.dumps(slack.bodies[0])
            (alert,) = (await up.alerts.alerts(AlertQuery(state="firing"))).alerts
            assert (alert.key, alert.action, alert.mode) == ("session:run-9", "block", "enforce")
            assert alert.receivers == ("slack", "pagerduty")
            await up.alerts.ack(alert.id, "ada")
            await up.until(lambda: len(pager.bodies) == 2)
        async with running(made) as up:
            (again,) = (await up.alerts.alerts(AlertQuery(state="firing"))).alerts
            assert (again.id, again.acknowledged_by) == (alert.id, "ada")
            await up.host.console.reset("session:run-9", "ada")
            await up.until(lambda: len(slack.bodies) == 2 and len(pager.bodies) == 3)
    assert [b["event_action"] for b in pager.bodies] == ["trigger", "acknowledge", "resolve"]
    assert len({b["dedup_key"] for b in pager.bodies}) == 1
    assert "Resolved" in slack.bodies[1]["text"]
    assert slack.wrong == pager.wrong == []


@in_loop
async def test_r127_a_budget_is_told_at_each_threshold_with_share_limit_and_projection(tmp_path: Path) -> None:
    """50, 80 and 95 % and all of a dollar, once each, whatever is spent on; an extension is the end of it."""
    budgets = {"user/daily": {"limit_usd": 1.0, "period": "daily", "thresholds": [0.5, 0.8, 0.95]}}
    with alert_servers.served(alert_servers.webhook) as hook:
        made = config(
            tmp_path, {"webhook": {"url": hook.url}}, {"routes": [{"receivers": ["webhook"]}]}, budgets=budgets
        )
        async with running(made) as up:
            wanted = [0.5, 0.8, 0.95, 1.0]
            for n in range(26):
                await up.send(call(f"run-{n}", n, f"What is {n}?", user="ada", cost_usd=0.05))
                sent = sum(0.05 * (n + 1) >= level - 1e-9 for level in wanted)
                await up.until(lambda sent=sent: len(hook.bodies) >= sent)  # type: ignore[misc]
            data = [body["data"] for body in hook.bodies]
            assert [(d["threshold"], d["level"], d["limit"]) for d in data] == [
                (0.5, "info", 1.0), (0.8, "warning", 1.0), (0.95, "urgent", 1.0), (1.0, "critical", 1.0),
            ]  # fmt: skip
            assert "all is spent at" in hook.bodies[1]["message"]
            assert hook.bodies[3]["release"] == "spanfuse budget extend user:ada user/daily 0.25"
            order = BudgetOrder(
                id="o-1",
                scope="user:ada",
                budget="user/daily",
                action="extend",
                amount=5 * 10**9,
                at_ns=time.time_ns(),
                actor="ops",
            )
            assert (await up.host.console.order(order)).done
            await up.until(lambda: len(hook.bodies) == 5)
            assert hook.bodies[4]["state"] == "resolved"


@in_loop
async def test_routes_choose_by_rule_severity_agent_and_team_and_none_is_mute(tmp_path: Path) -> None:
    """The first that holds decides, unless it goes on."""
    routes = [
        {"rule": "near*", "receivers": []},
        {"agent": "pay*", "receivers": ["webhook/pay"], "continue": True},
        {"severity": "critical", "receivers": ["webhook/pay"]},
        {"rule": "repeat.*", "receivers": ["webhook/all"]},
    ]
    with alert_servers.served(alert_servers.webhook) as pay, alert_servers.served(alert_servers.webhook) as rest:
        receivers = {"webhook/pay": {"url": pay.url}, "webhook/all": {"url": rest.url}}
        async with running(config(tmp_path, receivers, {"routes": routes})) as up:
            await up.send(*loop("a", 4, agent="payments"), *loop("b", 4, agent="search"))
            await up.until(lambda: len(pay.bodies) == 1 and len(rest.bodies) == 2)


@in_loop
async def test_a_test_reaches_the_receiver_that_is_named_or_each(tmp_path: Path) -> None:
    """And says what became of it; a name that is none is the caller's mistake."""
    with alert_servers.served(alert_servers.slack) as slack:
        receivers = {
            "slack": {"url": slack.url},
            "log": {},
            "webhook/dead": {"url": f"http://127.0.0.1:{free_port()}/"},
        }
        async with running(config(tmp_path, receivers)) as up:
            found = {one.receiver: one for one in await up.alerts.test("", "ada")}
            assert [found[name].delivered for name in receivers] == [True, True, False]
            assert found["webhook/dead"].why
            assert len(await up.alerts.test("slack", "ada")) == 1
            with pytest.raises(QueryError, match="slack, log"):
                await up.alerts.test("nobody", "ada")
    assert "ada asked for it" in json.dumps(slack.bodies[0])


@in_loop
async def test_r067_and_r090_a_model_without_a_price_is_told_once(tmp_path: Path) -> None:
    """By the watcher, from what the host counts."""
    with alert_servers.served(alert_servers.webhook) as hook:
        watch = QUIET | {"interval_s": 0.05}
        async with running(config(tmp_path, {"webhook": {"url": hook.url}}, {"watch": watch})) as up:
            for n in range(3):
                await up.send(call("s", n, f"What is {n}?", model="new-x-9"))
            await up.until(lambda: len(hook.bodies) == 1)
    assert (hook.bodies[0]["rule"], hook.bodies[0]["key"]) == ("price.unknown", "model:openai/new-x-9")


@in_loop
async def test_receivers_that_are_dead_or_slow_cost_the_detection_nothing(tmp_path: Path) -> None:
    """Two hundred sessions are stopped while nobody takes an alert: as fast as without, and the queues stay bounded."""
    in_memory = {"api": {"endpoint": "127.0.0.1:0"}, "storage": {"path": ""}}
    plain = EmbeddedHost(config(tmp_path, {"log": {}}, extensions=in_memory, exporters={}))
    await plain.start()
    with alert_servers.served(alert_servers.slack) as silent:
        silent.silent.set()
        receivers = {
            "slack": {"url": silent.url},
            "webhook": {"url": f"http://127.0.0.1:{free_port()}/"},
            "smtp": {"server": f"127.0.0.1:{free_port()}", "from": "a@b", "to": ["c@d"], "tls": "none"},
        }
        async with running(config(tmp_path, receivers, {"queue": 20}, extensions=in_memory)) as up:
            without, with_dead = await delays(plain, up.host, 150)
            await up.until(lambda: all(r["dropped"] for r in up.alerts.status()["receivers"].values()))
            assert max(r["waiting"] for r in up.alerts.status()["receivers"].values()) <= 20
            assert up.host.live
    await plain.stop()
    assert with_dead < 1.5 * without + 0.002, (with_dead, without)
