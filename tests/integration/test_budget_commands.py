"""`spanfuse budget` on real hosts: one process with a ledger in SQLite, and workers on Kafka with a ledger in Redis."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from spanfuse.ledger import Amounts, Refused, connect, nano
from tests.client.waiting import wait_until
from tests.services.kafka_service import KafkaService
from tests.services.redis_server import RedisService
from tests.support.hosts import Deployment, embedded, stream
from tests.support.recorded import attribute, chat_span, request
from tests.support.stream import fresh_topics

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

EACH_NANO_USD = 1000 * 150
"""What one call of `call` costs."""
BUDGETS = {
    "session/all": {"limit_usd": EACH_NANO_USD / 1e9},
    "user/daily": {"limit_usd": 2 * EACH_NANO_USD / 1e9, "period": "daily"},
    "team/lost": {"for": "lost", "limit_usd": 0.001, "strength": "strict"},
    "team/compared": {"for": "compared", "limit_usd": 0.001, "strength": "strict"},
}


@pytest.fixture(scope="module", params=["embedded", "stream"])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Deployment, str]]:
    """A host with a ledger, and the ledger's address. Each test has a user, a team and sessions of its own."""
    tmp_path = tmp_path_factory.mktemp("host")
    config: dict[str, Any] = {"service": {"mode": "enforce"}, "budgets": BUDGETS}
    if request.param == "embedded":
        address = f"sqlite:///{tmp_path / 'ledger.db'}"
        ledger = {"ledger": {"address": address, "compare_interval_s": 0.2}}
        with embedded(tmp_path, config, extensions=ledger) as running:
            yield running, address
    else:
        kafka: KafkaService = request.getfixturevalue("kafka")
        redis: RedisService = request.getfixturevalue("redis_service")
        asyncio.run(fresh_topics(kafka.brokers))
        address = f"{redis.url}?tenant={uuid.uuid4().hex}"
        config["extensions"] = {"ledger": {"address": address, "compare_interval_s": 0.2}}
        with stream(tmp_path, config, kafka.brokers) as running:
            yield running, address


def call(host: Deployment, number: int, user: str = "somebody", team: str = "some") -> None:
    """One model call of a user of a team, as its process exports it."""
    span = chat_span(
        number, [("user", f"Question {number}")], session=f"s{number}", tokens=(1000, 0), at=_now() + number
    )
    span["attributes"] += [attribute("user.id", user), attribute("team.id", team)]
    sent = httpx.post(
        f"{host.otlp}/v1/traces",
        content=json.dumps(request(span)).encode(),
        headers={"Content-Type": "application/json"},
        timeout=20,
    )
    assert sent.status_code == 200


def _now() -> float:
    """So that what is spent is spent today; a few minutes ago, whatever midnight does."""
    from tests.support.recorded import START_NS

    return (time.time_ns() - START_NS) / 1e9 - 60


def spanfuse(host: Deployment, *arguments: str) -> tuple[int, Any]:
    where = ["--api", host.api] if host.api else ["--config", str(host.config)]
    command = [sys.executable, "-m", "spanfuse_processor", "budget", *arguments, *where, "--format", "json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert ran.stdout, ran.stderr
    return ran.returncode, json.loads(ran.stdout)


def account(host: Deployment, scope: str, name: str) -> dict[str, Any]:
    _, found = spanfuse(host, "get", scope, name)
    row: dict[str, Any] = found["budgets"][0]
    return row


def until(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, 60, what)


def test_what_is_spent_is_shown_and_raised_and_reset_and_told_who_did_it(host: tuple[Deployment, str]) -> None:
    running, _ = host
    assert account(running, "user:u-7", "user/daily")["spent"] == 0
    for number in range(2):
        call(running, number, user="u-7")
    until(lambda: account(running, "user:u-7", "user/daily")["spent"] == 2 * EACH_NANO_USD, "both calls are counted")
    code, found = spanfuse(running, "get", "user:u-7")
    assert (code, found["budgets"][0]["status"]) == (1, "exhausted")
    code, done = spanfuse(running, "extend", "user:u-7", "user/daily", "1", "--for", "1h", "--reason", "month end")
    assert (code, done["done"], done["account"]["status"]) == (0, True, "ok")
    assert done["account"]["limit"] == 2 * EACH_NANO_USD + 10**9
    code, done = spanfuse(running, "set", "user:u-7", "user/daily", "0.5")
    assert (code, done["account"]["limit"]) == (0, 5 * 10**8 + 10**9)
    code, done = spanfuse(running, "reset", "user:u-7", "user/daily")
    assert (code, done["account"]["spent"]) == (0, 0)
    _, found = spanfuse(running, "audit")
    orders = [(one["order"]["action"], one["order"].get("reason", ""), one["done"]) for one in found["audit"]]
    assert orders == [("reset", "", True), ("set", "", True), ("extend", "month end", True)]
    _, found = spanfuse(running, "list")
    assert {"user:u-7", "team:lost"} <= {row["scope"] for row in found["budgets"]}


def test_a_session_that_has_spent_all_is_extended(host: tuple[Deployment, str]) -> None:
    running, _ = host
    call(running, 5)
    until(lambda: account(running, "session:s5", "session/all")["status"] == "exhausted", "its call is counted")
    code, done = spanfuse(running, "extend", "session:s5", "session/all", "1", "--for", "1h")
    assert (code, done["done"], done["account"]["status"]) == (0, True, "ok")
    _, found = spanfuse(running, "audit", "--limit", "1")
    assert found["audit"][0]["order"]["scope"] == "session:s5"


def test_a_ledger_that_was_lost_is_rebuilt_from_the_spans(host: tuple[Deployment, str]) -> None:
    running, address = host
    ledger = connect(address)
    until(lambda: {b.name for b in ledger.budgets()} == set(BUDGETS), "budgets are published")
    for number in range(10, 13):
        call(running, number, team="lost")
    until(lambda: account(running, "team:lost", "team/lost")["spent"] == 3 * EACH_NANO_USD, "three calls")
    assert ledger.accounts("team:lost") == []
    for _ in range(2):
        assert spanfuse(running, "rebuild") == (0, {"accounts": 2})
    (booked,) = ledger.accounts("team:lost")
    assert booked.spent == 3 * EACH_NANO_USD
    hold = ledger.reserve("c1", {"team": "lost"}, Amounts(usd=nano(0.0005)))
    row = account(running, "team:lost", "team/lost")
    assert (row["spent"], row["held"]) == (3 * EACH_NANO_USD, nano(0.0005))
    with pytest.raises(Refused):
        ledger.reserve("c2", {"team": "lost"}, Amounts(usd=nano(0.0005)))
    assert spanfuse(running, "extend", "team:lost", "team/lost", "0.001")[0] == 0
    ledger.reserve("c2", {"team": "lost"}, Amounts(usd=nano(0.0005)))
    ledger.release(hold.call_id)
    ledger.close()


def test_what_the_ledger_and_the_spans_tell_is_compared_all_the_time(host: tuple[Deployment, str]) -> None:
    running, address = host
    ledger = connect(address)
    until(lambda: bool(ledger.budgets()), "budgets are published")

    def differs(nano_usd: int) -> bool:
        if running.api:
            found = httpx.get(f"{running.api}/v1/status", timeout=20).json()["ledger"]
            return bool(found["reachable"] and found["difference_nano_usd"] == nano_usd)
        told = [line for line in running.lines if line.startswith("spanfuse worker counts ") and '"ledger"' in line]
        last = json.loads(told[-1].partition("counts ")[2])["ledger"] if told else {}
        return bool(last) and last["difference_nano_usd"] == nano_usd

    call(running, 20, team="compared")
    until(lambda: differs(EACH_NANO_USD), "a call that nobody reserved is a difference")
    ledger.settle("d1", Amounts(usd=EACH_NANO_USD), {"team": "compared"})
    until(lambda: differs(0), "they agree")
    ledger.close()
