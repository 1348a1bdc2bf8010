"""A stream deployment as operators see it: a worker on a real broker, a real Redis, and the console over both."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import httpx
import pytest

from spanfuse import Blocked, Guard
from spanfuse_processor.config import Config
from spanfuse_processor.config.overlay import Overlay
from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.exporters.readmodel.model import DetectionQuery, SessionQuery
from spanfuse_processor.hosts.console_stream import StreamConsole
from spanfuse_schemas import BudgetOrder
from tests.services.kafka_service import KafkaService
from tests.services.process import free_ports
from tests.services.redis_server import LocalRedis, RedisService
from tests.support.hosts import SPANFUSE
from tests.support.loops import in_loop
from tests.support.recorded import SECOND, START_NS, healthy, repeater
from tests.support.stream import OTLP_SPANS, PARTITIONS, WorkerProcess, fresh_topics, send, settled, until

pytestmark = pytest.mark.integration

BUDGET = {"user/daily": {"limit_steps": 3, "period": "daily"}}


def shifted(requests: list[dict[str, Any]], by_ns: int) -> list[dict[str, Any]]:
    """The same, at another time."""
    text = json.dumps(requests)
    moved: list[dict[str, Any]] = json.loads(text)
    for span in (s for r in moved for rs in r["resourceSpans"] for ss in rs["scopeSpans"] for s in ss["spans"]):
        for name in ("startTimeUnixNano", "endTimeUnixNano"):
            span[name] = str(int(span[name]) + by_ns)
    return moved


def now(requests: list[dict[str, Any]]) -> list[tuple[int, bytes]]:
    """As messages, of the last minute."""
    by_ns = time.time_ns() - 60 * SECOND - START_NS
    return [(0, json.dumps(request).encode()) for request in shifted(requests, by_ns)]


def extensions(redis_url: str, tenant: str) -> dict[str, Any]:
    return {"readmodel": {"address": f"{redis_url}?tenant={tenant}"}}


@asynccontextmanager
async def deployed(
    kafka: KafkaService, redis_url: str, folder: Path, **sections: Any
) -> AsyncIterator[tuple[WorkerProcess, StreamConsole]]:
    """A worker, and a console of the same configuration."""
    await fresh_topics(kafka.brokers)
    content: dict[str, Any] = {
        "extensions": extensions(redis_url, uuid4().hex),
        "service": {"mode": "enforce"},
        **sections,
    }
    worker = WorkerProcess(folder, kafka.brokers, json.loads(json.dumps(content)))
    worker.start()
    receivers = {"kafka": {"brokers": kafka.brokers, "partitions": PARTITIONS}}
    console = StreamConsole(Config.model_validate({**content, "receivers": receivers}))
    try:
        await until(lambda: worker.ready, "the worker is up")
        await console.start()
        yield worker, console
    finally:
        await console.stop()
        worker.kill()


@in_loop
async def test_the_stream_answers_as_the_embedded_host_does(
    kafka: KafkaService, redis_service: RedisService, tmp_path: Path
) -> None:
    """Sessions, their steps, what was found and decided, minutes, agents, explanations: from Redis and the control topic."""
    async with deployed(kafka, redis_service.url, tmp_path) as (_, console):
        (ready, *_), listener = console.events()
        await send(kafka.brokers, OTLP_SPANS, now([*repeater(3), *healthy(4, session="other")]))
        await settled(kafka.brokers)

        async def shown() -> bool:
            return len((await console.sessions(SessionQuery())).sessions) == 2

        await until(shown, "both sessions are shown")
        (row,) = (await console.sessions(SessionQuery(state="open"))).sessions
        assert (row.session, row.calls, row.rule, row.action, row.detections) == ("s", 3, "repeat.prompt", "block", 1)
        steps = await console.timeline("s", 200)
        assert [(step.loop, step.decision) for step in steps] == [(1, ""), (1, ""), (1, "block")]
        assert [d.rule for d in await console.history("session:s", 5)] == ["repeat.prompt"]
        assert [d.session for d in (await console.detections(DetectionQuery())).detections] == ["s"]
        assert sum(r.calls for r in await console.series("model", "gpt-4o-mini", 60)) == 7
        assert [d.key for d in console.decisions()] == ["session:s"]
        found = await console.explain("session:s")
        assert (found.known, found.rules[0].rule, found.rules[0].stands) == (True, "repeat.prompt", True)
        detail = await console.session("s")
        assert detail is not None
        assert detail.decision is not None
        (model,) = await console.models()
        assert (model["model"], model["calls"]) == ("gpt-4o-mini", 7)

        async def counted() -> bool:
            return bool((await console.status())["counts"].get("calls") == 7)

        await until(counted, "the worker has told what it counts")
        status = await console.status()
        assert (status["host"], status["open_breakers"]) == ("stream", 1)
        assert status["workers"][0]["partitions"] == [0, 1, 2, 3]
        assert (status["sessions"], status["guards"]["refused"], console.ready, console.live) == (2, [], True, True)
        told = (await listener.take(2) or b"").decode()
        assert "event: decision" in told
        assert "event: detection" in told
        await until(lambda: console._lag.found is not None, "the lag is known", 30)
        first = ready.decode().splitlines()[0].removeprefix("id: ")
        assert b"event: decision" in b"".join(console.events(first)[0])


@in_loop
async def test_resets_and_orders_reach_the_worker_and_are_told(
    kafka: KafkaService, redis_service: RedisService, tmp_path: Path
) -> None:
    async with deployed(kafka, redis_service.url, tmp_path, budgets=BUDGET) as (_, console):
        await send(kafka.brokers, OTLP_SPANS, now(repeater(3)))
        await until(lambda: bool(console.decisions()), "the breaker is open")
        asked = time.monotonic()
        closed = await console.reset("session:s", "alice")
        assert time.monotonic() - asked < 2, "a click is felt at once"
        assert closed is not None
        assert (closed.state, closed.reset) == ("closed", True)
        await until(lambda: not console.decisions(), "it is closed for those who watch")
        assert await console.reset("session:nobody", "alice") is None
        order = BudgetOrder(id="o1", scope="user:u-7", budget="user/daily", action="extend", amount=2, at_ns=1)
        done = await console.order(order)
        assert (done.done, done.account["limit"]) == (True, 5)
        await until(lambda: bool(console._now.audited), "the order is in the audit")
        assert b'"o1"' in (await console.audit(5))[0]

        async def listed() -> bool:
            return [r["limit"] for r in await console.budgets("user:u-7")] == [5]

        await until(listed, "the account is shown as it is now")


@in_loop
async def test_sections_are_laid_over_the_file_of_every_worker_also_of_one_that_starts_later(
    kafka: KafkaService, redis_service: RedisService, tmp_path: Path
) -> None:
    async with deployed(kafka, redis_service.url, tmp_path) as (worker, console):
        patient = Overlay.model_validate({"detectors": {"repeat.prompt": {"count": 9}}})
        notice = await console.put_policy(patient, "alice", "it only waits")
        assert notice.policy.rules.repeat_prompt.count == 9
        laid = await console.overlay()
        assert laid is not None
        assert (laid.actor, laid.in_force) == ("alice", True)
        worker.kill()
        worker.start()
        before = console.policy.epoch
        await until(lambda: console.policy.epoch > before, "the worker has told its policy")
        assert console.policy.policy.rules.repeat_prompt.count == 9
        await send(kafka.brokers, OTLP_SPANS, now(repeater(5)))
        await settled(kafka.brokers)
        assert console.decisions() == []
        tried = await console.dry_run(Overlay.model_validate({"detectors": {"repeat.prompt": {"count": 3}}}), 0)
        assert (tried.calls, [row["session"] for row in tried.stopped_by_new_only]) == (5, ["s"])
        taken = await console.put_policy(Overlay(), "bob", "")
        assert taken.policy.rules.repeat_prompt.count == 3
        assert await console.overlay() is None


@in_loop
async def test_a_redis_that_is_away_costs_detection_nothing_and_what_is_shown_is_caught_up(
    kafka: KafkaService, tmp_path: Path
) -> None:
    redis = LocalRedis()
    redis.start()
    try:
        async with deployed(kafka, redis.url, tmp_path) as (_, console):
            redis.kill()
            await send(kafka.brokers, OTLP_SPANS, now(repeater(3)))
            await until(lambda: bool(console.decisions()), "the breaker is open all the same", 15)
            with pytest.raises(UnavailableError):
                await console.sessions(SessionQuery())
            status = await console.status()
            assert status["readmodel"]["reachable"] is False
            assert status["open_breakers"] == 1
            redis.start()

            async def shown() -> bool:
                try:
                    return len(await console.timeline("s", 9)) == 3 and await console.session("s") is not None
                except UnavailableError:
                    return False

            await until(shown, "what happened meanwhile is shown", 30)
    finally:
        redis.stop()


@in_loop
async def test_what_is_delivered_again_after_a_kill_is_shown_once(
    kafka: KafkaService, redis_service: RedisService, tmp_path: Path
) -> None:
    async with deployed(kafka, redis_service.url, tmp_path) as (worker, console):
        for n in range(6):
            await send(kafka.brokers, OTLP_SPANS, now(healthy(5, session=f"s{n}")))
            await asyncio.sleep(0.2)
            if n % 2:
                worker.kill()
                worker.start()
        await settled(kafka.brokers)

        async def shown() -> bool:
            rows = (await console.sessions(SessionQuery())).sessions
            return sum(row.calls for row in rows) == 30

        await until(shown, "all calls are shown")
        assert [len(await console.timeline(f"s{n}", 200)) for n in range(6)] == [5] * 6
        await until(lambda: console._lag.found is not None, "the lag is known", 30)
        assert sum(r.calls for r in await console.series("global", "*", 60)) == 30


@in_loop
async def test_spanfuse_api_serves_it_and_guards_may_listen_there(
    kafka: KafkaService, redis_service: RedisService, tmp_path: Path
) -> None:
    """The command, with the file of the workers; what Guards hear is what stands in the control topic."""
    (port,) = free_ports(1)
    more = {"api": {"endpoint": f"127.0.0.1:{port}"}, **extensions(redis_service.url, uuid4().hex)}
    async with deployed(kafka, redis_service.url, tmp_path, extensions=more) as (worker, _):
        await send(kafka.brokers, OTLP_SPANS, now(repeater(3)))
        await settled(kafka.brokers)
        with serving(worker._config) as api:
            assert "spanfuse api is up" in await asyncio.to_thread(api.readline)
            guard = Guard(f"http://127.0.0.1:{port}")
            assert await asyncio.to_thread(guard.wait_ready, 10)
            with pytest.raises(Blocked):
                guard.check(session="s")
            guard.close()
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
                listed = (await client.get("/v1/sessions")).json()
                assert [row["session"] for row in listed["sessions"]] == ["s"]
                assert (await client.get("/readyz")).status_code == 200


@contextmanager
def serving(config: Path) -> Iterator[IO[str]]:
    """`spanfuse api`, and what it says."""
    command = [*SPANFUSE, "api", "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield process.stderr
        finally:
            process.terminate()
            assert process.wait(10) == 0
