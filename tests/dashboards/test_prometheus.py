"""A real Prometheus looks at both deployments under load: each expression of each dashboard and rule comes to something."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from spanfuse_processor.telemetry.catalogue import CATALOGUE, FORBIDDEN
from tests.services.kafka_service import KafkaService
from tests.services.process import wait_until
from tests.services.prometheus import Prometheus, write_yaml
from tests.services.redis_server import RedisService
from tests.support.observed import DEPLOY, Fleet, load, observed_fleet
from tests.support.promql import Asked, of_dashboards, of_rules, substituted

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240), pytest.mark.usefixtures("tools")]

WINDOW: Final = "10m"
"""Of every rate, and the time shown: longer than the test, so that what was counted once stays counted."""
STEP: Final = "2s"
"""From point to point."""
EMPTY: Final = {
    "alerts / SpanfuseApiErrors": "an API that works answers nothing with 5xx; promtool's cases have it fire"
}
"""Where nothing comes, and why that is right."""
HOSTS: Final = {
    "spanfuse-embedded": "embedded",
    "spanfuse-worker": "worker",
    "spanfuse-api": "api",
    "spanfuse-proxy": "proxy",
}
"""Job → what runs there."""


@pytest.fixture(scope="module")
def fleet(
    tools: None, kafka: KafkaService, redis_service: RedisService, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """Both, after the load."""
    with observed_fleet(tmp_path_factory.mktemp("observed"), kafka, redis_service) as found:
        wait_until(lambda: len(found.prometheus.query("up == 1")) == 4, "all targets answer", 30)
        load(found, kafka)
        yield found


def shown(asked: Asked) -> Asked:
    """As a dashboard asks it; what it asks of each minute, of each step."""
    expr = re.sub(r"\[1m\]|offset 1m", lambda minute: minute[0].replace("1m", STEP), asked.expr)
    return asked._replace(expr=substituted(expr, WINDOW, STEP))


def relaxed(expr: str) -> str:
    """An alert's expression that says 0 where it would say nothing, over the time that there is."""
    whole = re.sub(r"(?<![=!<>~])(>=|<=|==|!=|>|<)(?![=~])\s*", r"\1 bool ", _without_matchers(expr))
    return re.sub(r"offset \d+[smhd]", "offset 2s", _with_matchers(whole, expr))


def _without_matchers(expr: str) -> str:
    return re.sub(r"\{[^}]*\}", "{}", expr)


def _with_matchers(bare: str, expr: str) -> str:
    matchers = iter(re.findall(r"\{[^}]*\}", expr))
    return re.sub(r"\{\}", lambda _: next(matchers), bare)


def comes(prometheus: Prometheus, asked: Asked) -> bool:
    """Whether it comes to a number at all."""
    if asked.over_time:
        points = [point for series in prometheus.over_time(asked.expr) for point in series["values"]]
    else:
        points = [series["value"] for series in prometheus.query(asked.expr)]
    return not all(math.isnan(float(value)) for _, value in points)


def come_to_something(prometheus: Prometheus, asked: list[Asked], timeout_s: float = 45) -> None:
    """Wait until each does."""
    end = time.monotonic() + timeout_s
    waiting = [one for one in asked if one.where not in EMPTY]
    while waiting := [one for one in waiting if not comes(prometheus, one)]:
        assert time.monotonic() < end, "\n".join(f"{one.where}: {one.expr}" for one in waiting)
        time.sleep(0.5)


def test_every_expression_of_every_dashboard_comes_to_something(fleet: Fleet) -> None:
    """Everything chosen, as Grafana asks it."""
    come_to_something(fleet.prometheus, [shown(asked) for asked in of_dashboards()])


def test_every_expression_of_every_rule_comes_to_something(fleet: Fleet) -> None:
    """With its thresholds taken as questions, not as filters."""
    come_to_something(fleet.prometheus, [asked._replace(expr=relaxed(asked.expr)) for asked in of_rules()])


def test_what_happened_fires(fleet: Fleet) -> None:
    """Dead letters and a model without a price, of both; agents were stopped; and no rule fails."""

    def firing() -> set[tuple[str, str]]:
        found = [series["metric"] for series in fleet.prometheus.query('ALERTS{alertstate="firing"}')]
        return {(alert["alertname"], alert["job"]) for alert in found}

    jobs = ("spanfuse-embedded", "spanfuse-worker")
    wanted = {(name, job) for name in ("SpanfuseDeadLetters", "SpanfuseUnpricedModels") for job in jobs}
    wait_until(lambda: firing() >= wanted, f"{wanted} fire", 30)
    said = [note for alert in fleet.prometheus.get("alerts")["alerts"] for note in alert["annotations"].values()]
    assert not [note for note in said if "error expanding" in note or "no value" in note]
    assert len(fleet.prometheus.query('sum by (job) (spanfuse_guards_total{kind="blocked"}) > 0')) == 2
    rules = [rule for group in fleet.prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert [rule["name"] for rule in rules if rule["health"] == "err"] == []


def test_each_host_tells_what_the_table_of_metrics_says_and_nothing_of_sessions(fleet: Fleet) -> None:
    """So that an API beside workers repeats nothing that they count."""
    told = {(s["metric"]["job"], s["metric"]["__name__"]) for s in fleet.prometheus.query('{job=~"spanfuse-.+"}')}
    ours = {(job, name) for job, name in told if name.startswith("spanfuse_")}
    assert {job for job, _ in ours} == set(HOSTS)
    assert {(job, name) for job, name in ours if name not in told_by(HOSTS[job])} == set()
    assert not FORBIDDEN & set(fleet.prometheus.get("labels"))


def told_by(host: str) -> set[str]:
    """Names of the metrics of one kind of host."""
    parts = ("_bucket", "_sum", "_count")
    found = {one for one in CATALOGUE if host in one.hosts}
    return {one.prometheus + part for one in found for part in (parts if one.kind == "histogram" else ("",))}


def pods() -> list[dict[str, str]]:
    """Those of deploy/kubernetes, as its service discovery would tell of them."""
    text = (DEPLOY / "kubernetes/spanfuse.yaml").read_text(encoding="utf-8")
    templates = [one["spec"]["template"]["metadata"] for one in yaml.safe_load_all(text) if one["kind"] == "Deployment"]
    return [
        {f"__meta_kubernetes_pod_label_{plain(name)}": value for name, value in template["labels"].items()}
        | {f"__meta_kubernetes_pod_annotation_{plain(name)}": value for name, value in template["annotations"].items()}
        | {"__meta_kubernetes_namespace": "agents", "__meta_kubernetes_pod_ip": "127.0.0.1"}
        | {"__meta_kubernetes_pod_name": f"{template['labels']['app.kubernetes.io/component']}-0"}
        for template in templates
    ]


def plain(name: str) -> str:
    """As Prometheus writes it in a label."""
    return re.sub(r"\W", "_", name)


def test_pods_are_found_by_their_annotations(tmp_path: Path) -> None:
    """kubernetes.yml finds those of deploy/kubernetes, and no others."""
    config = yaml.safe_load((DEPLOY / "prometheus/kubernetes.yml").read_text(encoding="utf-8"))
    (job,) = config["scrape_configs"]
    del job["kubernetes_sd_configs"], job["authorization"], config["rule_files"]
    job["file_sd_configs"] = [{"files": ["pods.yaml"]}]
    ours = pods()
    other = ours[0] | {"__meta_kubernetes_pod_label_app_kubernetes_io_name": "shop"}
    unasked = ours[0] | {"__meta_kubernetes_pod_annotation_prometheus_io_scrape": "false"}
    written = [{"targets": ["127.0.0.1:1"], "labels": labels} for labels in (*ours, other, unasked)]
    write_yaml(tmp_path / "pods.yaml", written)
    write_yaml(tmp_path / "prometheus.yml", config)
    prometheus = Prometheus(tmp_path)
    prometheus.start()
    try:
        wait_until(lambda: prometheus.get("targets")["activeTargets"], "pods are found", 20)
        found = {target["scrapeUrl"]: target["labels"] for target in prometheus.get("targets")["activeTargets"]}
    finally:
        prometheus.stop()
    place = {"namespace": "agents"}
    assert found == {
        "http://127.0.0.1:9464/metrics": place | {"job": "spanfuse-worker", "pod": "worker-0", "instance": "worker-0"},
        "http://127.0.0.1:8787/metrics": place | {"job": "spanfuse-api", "pod": "api-0", "instance": "api-0"},
    }
