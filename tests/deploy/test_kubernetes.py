"""deploy/kubernetes: what the chart makes, and Kubernetes and its Pod Security Standard `restricted` take."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from spanfuse_processor.cli import cli
from spanfuse_processor.config import load_config
from spanfuse_processor.hosts.stream.pulse import LEAVE_S
from tests.deploy.charts import EXAMPLE, documents, example, of_kind, pods, run_helm
from tests.deploy.test_compose import parsed

STOP_S = 10
"""What `Worker.stop` takes at most."""
VERSIONS = ("1.30", "1.34")
TOKENS = {"SPANFUSE_TOKEN": "a-token-of-operators", "SPANFUSE_READ_TOKEN": "a-token-of-guards"}


def manifests() -> list[dict[str, Any]]:
    """All that is committed."""
    return [
        document for file in ("topics.yaml", "spanfuse.yaml") for document in documents((EXAMPLE / file).read_text())
    ]


def containers() -> dict[str, dict[str, Any]]:
    """The one container of each pod, by its name."""
    return {spec["containers"][0]["name"]: spec["containers"][0] for spec in pods(manifests()).values()}


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_takes_them(version: str) -> None:
    for document in manifests():
        kubernetes_validate.validate(document, version, strict=True)


def test_pods_are_allowed_by_the_restricted_standard() -> None:
    for name, spec in pods(manifests()).items():
        assert_restricted(name, spec)


def assert_restricted(name: str, spec: dict[str, Any]) -> None:
    """As the Pod Security Standard `restricted` has it."""
    assert spec["securityContext"]["runAsNonRoot"] is True, name
    assert spec["securityContext"]["runAsUser"] > 0, name
    assert spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", name
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys(), name
    assert all(not volume.keys() & {"hostPath", "nfs"} for volume in spec["volumes"]), name
    assert spec["automountServiceAccountToken"] is False, name
    for container in spec["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False, name
        assert context["readOnlyRootFilesystem"] is True, name
        assert context["capabilities"] == {"drop": ["ALL"]}, name


def test_each_runs_a_command_that_the_command_line_takes(tmp_path: Path) -> None:
    config = tmp_path / "spanfuse.yaml"
    config.write_text("")
    for name, container in containers().items():
        arguments = [str(config) if part.endswith("spanfuse.yaml") else part for part in container["args"]]
        assert parsed(arguments).command_path.startswith(f"spanfuse {name}")
        assert name in cli.commands


def test_their_configuration_is_one_and_is_where_the_commands_look(tmp_path: Path) -> None:
    for config_map in of_kind(manifests(), "ConfigMap"):
        (file, text) = next(iter(config_map["data"].items()))
        written = tmp_path / file
        written.write_text(text)
        config = load_config(written, TOKENS)
        assert config.receivers.kafka is not None
        assert not config.hints()
    for container in containers().values():
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert container["args"][-1] in mounts


def test_probes_ask_ports_that_are_served(tmp_path: Path) -> None:
    (text,) = (
        c["data"]["spanfuse.yaml"] for c in of_kind(manifests(), "ConfigMap") if c["metadata"]["name"] == "spanfuse"
    )
    (tmp_path / "spanfuse.yaml").write_text(text)
    config = load_config(tmp_path / "spanfuse.yaml", TOKENS)
    served = {"worker": config.service.telemetry.metrics.endpoint, "api": config.extensions.api.endpoint}
    for name, endpoint in served.items():
        container = containers()[name]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
            asked = container[probe]["httpGet"]
            assert asked["path"] == path
            assert str(ports[asked["port"]]) == str(endpoint).rpartition(":")[2]


def test_a_worker_has_time_to_stop() -> None:
    for name, spec in pods(manifests()).items():
        if name.endswith("worker"):
            assert spec["terminationGracePeriodSeconds"] > STOP_S + LEAVE_S


def test_selectors_find_the_pods() -> None:
    found = manifests()
    labels = [d["spec"]["template"]["metadata"]["labels"] for d in found if "template" in d.get("spec", {})]
    for document in found:
        spec = document.get("spec", {})
        selector = spec.get("selector") or spec.get("podSelector")
        if selector is not None:
            wanted = selector.get("matchLabels", selector)
            assert sum(wanted.items() <= pod.items() for pod in labels) == 1, document["metadata"]["name"]


def test_there_are_no_more_workers_than_partitions() -> None:
    values = yaml.safe_load((EXAMPLE / "values.yaml").read_text())
    (worker,) = (d for d in of_kind(manifests(), "Deployment") if d["metadata"]["name"] == "spanfuse-worker")
    assert worker["spec"]["replicas"] <= values["config"]["receivers"]["kafka"]["partitions"]


def test_its_steps_name_files_and_objects_that_are_there() -> None:
    text = (EXAMPLE / "README.md").read_text()
    for file in re.findall(r"--filename (\S+)", text):
        assert (EXAMPLE / file).is_file()
    named = {f"{document['kind'].lower()}/{document['metadata']['name']}" for document in manifests()}
    assert set(re.findall(r"(?:job|deployment)/[a-z-]+", text)) <= named
    secrets = {source["secretRef"]["name"] for container in containers().values() for source in container["envFrom"]}
    assert secrets == set(re.findall(r"create secret generic (\w+)", text))


@pytest.mark.deploy
def test_they_are_what_the_chart_makes() -> None:
    for file, content in example().items():
        assert (EXAMPLE / file).read_text() == content, "make kubernetes"


@pytest.mark.deploy
def test_helm_tells_the_values_that_it_is_given_are_good() -> None:
    done = run_helm(
        "lint",
        EXAMPLE.parent / "helm/spanfuse",
        "--strict",
        "--values",
        EXAMPLE / "values.yaml",
        "--kube-version",
        "1.34.0",
    )
    assert done.returncode == 0, done.stdout
