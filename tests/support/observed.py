"""Both deployments under load, as Prometheus sees them: agents that run away, spans nobody can read, money that runs out."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import httpx
import yaml

from tests.services.kafka_service import KafkaService
from tests.services.process import free_ports
from tests.services.prometheus import Prometheus, write_yaml
from tests.services.redis_server import RedisService
from tests.support import alert_servers, hosts
from tests.support.alerting import call, loop
from tests.support.promql import ROOT
from tests.support.proxy_process import provider_process, proxy_process
from tests.support.recorded import attribute
from tests.support.stream import OTLP_SPANS, fresh_topics, send

DEPLOY: Final = ROOT / "deploy"
TOKEN: Final = "token-of-the-operators"
OPERATORS: Final = {"Authorization": f"Bearer {TOKEN}"}
AGENTS: Final = DEPLOY / "compose" / "agents.py"
"""The load of the demo: six agents, four of which run away."""

RULES: Final[dict[str, Any]] = {
    "cycle": {"mode": "nudge"},
    "repeat.error": {"mode": "shadow"},
    "limits": {"mode": "warn", "max_steps": 4},
    "coverage": {"grace_s": 1},
}
"""So that detections come in every mode, most others block, and what Guards tell of is compared at once."""
BUDGETS: Final[dict[str, Any]] = {
    "agent/daily": {"limit_usd": 5, "period": "daily"},
    "team/weekly": {"limit_usd": 50, "period": "weekly"},
    "global/monthly": {"limit_usd": 500, "period": "monthly"},
    "team/strict": {"limit_usd": 100, "strength": "strict"},
}


class Fleet(NamedTuple):
    """What runs, and who looks at it."""

    prometheus: Prometheus
    embedded: hosts.Deployment
    stream: hosts.Deployment
    api: str
    proxy: str


def _config(hook: str, ledger: str, **extensions: Any) -> dict[str, Any]:
    return {
        "detectors": RULES,
        "budgets": BUDGETS,
        "exporters": {"alerts": {"receivers": {"webhook": {"url": hook}}}},
        "extensions": {"ledger": {"address": ledger, "compare_interval_s": 1}, **extensions},
        "service": {"mode": "enforce"},
    }


@contextmanager
def observed_fleet(folder: Path, kafka: KafkaService, redis: RedisService) -> Iterator[Fleet]:
    """An embedded host and a proxy; a worker and an API on Kafka and Redis; Prometheus with what is in deploy/prometheus."""
    asyncio.run(fresh_topics(kafka.brokers))
    port, beside = (f"127.0.0.1:{port}" for port in free_ports(2))
    address = f"{redis.url}?tenant={uuid4().hex}"
    folders = {name: folder / name for name in ("embedded", "worker", "api")}
    for one in folders.values():
        one.mkdir()
    with ExitStack() as stack:
        hook = stack.enter_context(alert_servers.served(alert_servers.webhook)).url
        alone = _config(hook, f"sqlite:///{folders['embedded'] / 'ledger.db'}")
        embedded = stack.enter_context(hosts.embedded(folders["embedded"], alone, alone["extensions"]))
        tokens = [{"name": "operators", "token": TOKEN, "role": "admin"}]
        shared = _config(
            hook, address, readmodel={"address": address}, api={"endpoint": "127.0.0.1:0", "tokens": tokens}
        )
        metrics = {"telemetry": {"metrics": {"endpoint": port}}}
        worker = shared | {"service": shared["service"] | metrics}
        stream = stack.enter_context(hosts.stream(folders["worker"], worker, kafka.brokers))
        api = stack.enter_context(hosts.api(folders["api"], shared, kafka.brokers))
        _, provider = stack.enter_context(provider_process())
        proxy = stack.enter_context(proxy_process(provider, "--guard", embedded.api, "--metrics", beside))
        prometheus = Prometheus(_scraping(folder, embedded.api, port, api, beside))
        prometheus.start()
        stack.callback(prometheus.stop)
        yield Fleet(prometheus, embedded, stream, api, proxy.url)


def _scraping(folder: Path, embedded: str, worker: str, api: str, proxy: str) -> Path:
    """prometheus.yml as it comes, at other addresses and every second."""
    config = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text(encoding="utf-8"))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(DEPLOY / "prometheus/rules/*.yaml")]
    named = {"spanfuse-worker": worker, "spanfuse-api": api.removeprefix("http://")}
    for job in config["scrape_configs"]:
        if job.pop("dns_sd_configs", None):
            job["static_configs"] = [{"targets": [named[job["job_name"]]]}]
        if "authorization" in job:
            job["authorization"]["credentials_file"] = "token"
    (folder / "token").write_text(TOKEN)
    (folder / "targets").mkdir()
    write_yaml(folder / "targets" / "embedded.yaml", [{"targets": [embedded.removeprefix("http://")]}])
    write_yaml(folder / "targets" / "proxy.yaml", [{"targets": [proxy]}])
    write_yaml(folder / "prometheus.yml", config)
    return folder


def load(fleet: Fleet, kafka: KafkaService) -> None:
    """Agents on both; models without a price, input from a cache; what is no OTLP; another policy."""
    with ThreadPoolExecutor() as pool:
        agents = [
            pool.submit(_agents, fleet.embedded.otlp, fleet.embedded.api),
            pool.submit(_agents, fleet.stream.otlp, fleet.api),
        ]
        for otlp in (fleet.embedded.otlp, fleet.stream.otlp):
            for one in (*loop("house-1", 5, model="house-7b", agent="house", team="lab"), _cached()):
                httpx.post(f"{otlp}/v1/traces", json=one).raise_for_status()
        _through(fleet.proxy)
        httpx.post(
            f"{fleet.embedded.otlp}/v1/traces",
            content=b"\xff no OTLP",
            headers={"Content-Type": "application/x-protobuf"},
        )
        asyncio.run(send(kafka.brokers, OTLP_SPANS, [(0, b"\xff no OTLP")]))
        overlay = {"overlay": {"detectors": {"errors": {"count": 6}}}, "reason": "a test"}
        for api in (fleet.embedded.api, fleet.api):
            httpx.put(f"{api}/v1/policy", json=overlay, headers=OPERATORS, timeout=30).raise_for_status()
        for ran in agents:
            ran.result()
    _through(fleet.proxy)  # once more: a rate needs two looks
    for api in (fleet.embedded.api, fleet.api):
        order = {"key": "session:house-1", "actor": "a test"}
        httpx.post(f"{api}/v1/reset", json=order, headers=OPERATORS, timeout=30).raise_for_status()


def _agents(otlp: str, api: str) -> None:
    where = {"OTEL_EXPORTER_OTLP_ENDPOINT": otlp, "SPANFUSE_API_URL": api, "SPANFUSE_API_TOKEN": TOKEN}
    ran = subprocess.run(
        [sys.executable, str(AGENTS), "1"], env={**os.environ, **where}, capture_output=True, text=True, timeout=90
    )
    assert ran.returncode == 0, ran.stderr
    assert "stopped by" in ran.stdout


def _through(proxy: str) -> None:
    asked = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "What is it?"}]}
    httpx.post(f"{proxy}/v1/chat/completions", json=asked, headers={"Authorization": "Bearer sk"}).raise_for_status()


def _cached() -> dict[str, Any]:
    one = call("cached-1", 1, agent="cached", team="lab", cost_usd=0.01)
    span = one["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    span["attributes"].append(attribute("gen_ai.usage.cache_read.input_tokens", 60))
    return json.loads(json.dumps(one))  # type: ignore[no-any-return]
