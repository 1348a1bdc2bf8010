"""The Helm chart, by Helm: with each set of values it gives what Kubernetes, KEDA and the Prometheus operator take."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.deploy.charts import CHART, KUBERNETES, documents, of_kind, pods, rendered, run_helm, values_files
from tests.deploy.test_kubernetes import assert_restricted
from tests.services.go_tools import deploytools

pytestmark = pytest.mark.deploy

OF_OTHERS = ("keda.sh", "monitoring.coreos.com")
each_values_file = pytest.mark.parametrize("file", values_files(), ids=lambda file: file.stem)


def made(*arguments: str | Path, name: str = "spanfuse") -> list[dict[str, Any]]:
    """What the chart makes."""
    return documents(rendered(*arguments, name=name))


def refused(*arguments: str) -> str:
    """Why the chart makes nothing of these values."""
    done = run_helm("template", "spanfuse", CHART, "--kube-version", KUBERNETES, *arguments)
    assert done.returncode
    return done.stderr


def of_others(document: dict[str, Any]) -> bool:
    """Whether it is a custom resource."""
    return str(document["apiVersion"]).startswith(OF_OTHERS)


@each_values_file
def test_helm_finds_nothing_wrong(file: Path) -> None:
    done = run_helm("lint", CHART, "--strict", "--kube-version", KUBERNETES, "--values", file)
    assert done.returncode == 0, done.stdout


@each_values_file
def test_kubernetes_takes_what_it_makes(file: Path) -> None:
    for document in made("--values", file):
        if not of_others(document):
            kubernetes_validate.validate(document, "1.34", strict=True)


@each_values_file
def test_keda_and_the_prometheus_operator_take_what_it_makes(file: Path) -> None:
    custom = [document for document in made("--values", file) if of_others(document)]
    done = subprocess.run(
        [deploytools(), "custom"], input=yaml.safe_dump_all(custom), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(custom)


@each_values_file
def test_pods_are_allowed_by_the_restricted_standard(file: Path) -> None:
    for name, spec in pods(made("--values", file)).items():
        assert_restricted(name, spec)


@each_values_file
def test_names_and_labels_are_short_enough_for_long_releases(file: Path) -> None:
    for document in made("--values", file, name="a-release-with-a-name-that-is-as-long-as-helm-allows"):
        assert len(document["metadata"]["name"]) <= 63
        assert all(len(value) <= 63 for value in document["metadata"]["labels"].values())


def test_two_releases_in_a_namespace_have_nothing_in_common() -> None:
    first, second = made(name="one"), made(name="two")
    names = [{(d["kind"], d["metadata"]["name"]) for d in found} for found in (first, second)]
    assert not names[0] & names[1]
    selectors = [d["spec"]["selector"]["matchLabels"] for d in of_kind([*first, *second], "Deployment")]
    assert len({tuple(sorted(selector.items())) for selector in selectors}) == 4


def test_workers_are_replaced_all_at_once_and_the_api_one_by_one() -> None:
    worker, api = sorted(of_kind(made(), "Deployment"), key=lambda d: d["metadata"]["name"], reverse=True)
    assert worker["spec"]["strategy"] == {"type": "Recreate"}
    assert api["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_topics_are_made_before_anything_else_with_a_configuration_that_is_there_by_then() -> None:
    hooks = [d for d in made() if "pre-install" in d["metadata"].get("annotations", {}).get("helm.sh/hook", "")]
    weights = {d["kind"]: int(d["metadata"]["annotations"]["helm.sh/hook-weight"]) for d in hooks}
    assert weights["ConfigMap"] < weights["Job"]
    (job,) = of_kind(hooks, "Job")
    volumes = job["spec"]["template"]["spec"]["volumes"]
    assert volumes[0]["configMap"]["name"] in [d["metadata"]["name"] for d in of_kind(hooks, "ConfigMap")]


def test_a_change_of_the_configuration_restarts_the_pods() -> None:
    one, other = made(), made("--set", "config.service.mode=enforce")
    for before, after in zip(of_kind(one, "Deployment"), of_kind(other, "Deployment"), strict=True):
        sums = [d["spec"]["template"]["metadata"]["annotations"]["checksum/config"] for d in (before, after)]
        assert sums[0] != sums[1]


@pytest.mark.parametrize("by", ["hpa", "keda"])
def test_workers_are_scaled_by_lag_up_to_the_number_of_partitions(by: str) -> None:
    found = made("--set", f"worker.autoscaling.by={by}", "--set", "config.receivers.kafka.partitions=12")
    (worker,) = (d for d in of_kind(found, "Deployment") if d["metadata"]["name"].endswith("worker"))
    assert "replicas" not in worker["spec"]
    if by == "hpa":
        (scaler,) = of_kind(found, "HorizontalPodAutoscaler")
        assert scaler["spec"]["maxReplicas"] == 12
        assert scaler["spec"]["metrics"][0]["pods"]["metric"]["name"] == "spanfuse_lag_messages"
    else:
        (scaler,) = of_kind(found, "ScaledObject")
        assert scaler["spec"]["maxReplicaCount"] == 12
    assert scaler["spec"]["scaleTargetRef"]["name"] == worker["metadata"]["name"]


@pytest.mark.parametrize(
    "values",
    ["worker.replicas=9", "worker.autoscaling.by=hpa,worker.autoscaling.maxReplicas=9"],
    ids=["replicas", "autoscaling"],
)
def test_more_workers_than_partitions_are_refused(values: str) -> None:
    assert "9 workers for 8 partitions" in refused("--set", values)


@pytest.mark.parametrize(
    "value",
    ["config.extensions.api.endpoint=127.0.0.1:8787", "config.service.telemetry.metrics.endpoint=localhost:9464"],
    ids=["api", "metrics"],
)
def test_addresses_that_no_other_pod_reaches_are_refused(value: str) -> None:
    assert "is on loopback" in refused("--set", value)


def test_values_that_there_are_not_are_refused() -> None:
    assert "repicas" in refused("--set", "worker.repicas=3")


def test_a_network_policy_lets_through_to_kafka_and_redis_where_the_configuration_has_them() -> None:
    found = made(
        "--set",
        "config.receivers.kafka.brokers=a:9093\\,b:9095",
        "--set",
        "config.extensions.readmodel.address=rediss://u:p@r/0",
    )
    for policy in of_kind(found, "NetworkPolicy"):
        ports = [port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]]
        assert ports == [53, 53, 6379, 9093, 9095]


def test_a_port_that_only_the_environment_knows_has_to_be_named() -> None:
    brokers = "config.receivers.kafka.brokers=${env:KAFKA_BROKERS}"
    assert "networkPolicy.egressPorts" in refused("--set", brokers)
    assert made("--set", brokers, "--set", "networkPolicy.egressPorts={9092,6379}")


def test_workers_with_a_receiver_have_a_service_for_it() -> None:
    found = made("--set-json", 'config.receivers.otlp={"protocols":{"http":{"endpoint":"0.0.0.0:4318"}}}')
    (service,) = (d for d in of_kind(found, "Service") if d["metadata"]["name"].endswith("otlp"))
    assert [port["port"] for port in service["spec"]["ports"]] == [4318]


def test_prometheus_presents_a_token_to_the_api() -> None:
    (monitor,) = of_kind(made("--set", "monitoring.enabled=true"), "ServiceMonitor")
    assert monitor["spec"]["endpoints"][0]["authorization"]["credentials"] == {
        "name": "spanfuse",
        "key": "SPANFUSE_READ_TOKEN",
    }


def test_secrets_are_never_in_what_it_makes() -> None:
    assert not of_kind(made(), "Secret")
