"""docker-compose.yml, and the file for one container: what they name is there, under the names that the code has."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from spanfuse_processor.cli import cli
from spanfuse_processor.config import Config, load_config
from tests.services.docker_services import KAFKA_IMAGE
from tests.services.go_tools import deploytools

ROOT = Path(__file__).parents[2]
FILES = ("docker-compose.yml", "deploy/compose/single.yaml")
OURS = ("topics", "worker", "api", "demo")
TOKENS = {"SPANFUSE_TOKEN": "operators-on-loopback", "SPANFUSE_READ_TOKEN": "guards-on-loopback"}


def services(file: str = "docker-compose.yml") -> dict[str, dict[str, Any]]:
    """The services of a file, with the defaults of its variables."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (ROOT / file).read_text())
    found: dict[str, dict[str, Any]] = yaml.safe_load(text)["services"]
    return found


def parsed(arguments: list[str]) -> click.Context:
    """The context of a command line of ours; what the command would not take raises."""
    command: click.Command = cli
    context = command.make_context("spanfuse", list(arguments))
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command, context = found, found.make_context(name, rest, parent=context)
    return context


@pytest.mark.parametrize("file", FILES)
def test_every_image_has_a_version(file: str) -> None:
    for name, service in services(file).items():
        assert re.fullmatch(r"[a-z0-9./-]+:v?\d+\.\d+\.\d+\S*", service["image"]), name


def test_kafka_is_the_one_that_the_tests_run_against() -> None:
    assert services()["kafka"]["image"] == KAFKA_IMAGE


@pytest.mark.parametrize("file", FILES)
def test_ports_are_published_on_loopback_alone(file: str) -> None:
    published = [port for service in services(file).values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert len({port.split(":")[1] for port in published}) == len(published)


@pytest.mark.parametrize("file", FILES)
def test_every_file_that_is_mounted_exists(file: str) -> None:
    folder = (ROOT / file).parent
    named = set(yaml.safe_load((ROOT / file).read_text()).get("volumes", {}))
    for name, service in services(file).items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in named or (folder / source).exists(), f"{name}: {source}"
        build = service.get("build")
        if build is not None:
            assert (folder / build["context"] / build["dockerfile"]).is_file(), name


@pytest.mark.parametrize("file", FILES)
def test_services_are_waited_for_until_they_are_healthy_or_done(file: str) -> None:
    found = services(file)
    for name, service in found.items():
        for other, how in service.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert "test" in found[other].get("healthcheck", {}) or "build" in found[other], (
                    f"{name} waits for {other}"
                )
            if how["condition"] == "service_completed_successfully":
                assert found[other]["restart"] == "no"


def test_the_agents_of_the_demo_are_where_it_runs_them() -> None:
    demo = services()["demo"]
    folder = _mounted(demo, ROOT / "docker-compose.yml")["/etc/spanfuse"]
    assert (folder / demo["entrypoint"][1].removeprefix("/etc/spanfuse/")).is_file()


def test_nothing_reads_or_writes_topics_before_they_are_made() -> None:
    for name in ("worker", "api", "otel-collector"):
        assert services()[name]["depends_on"]["topics"]["condition"] == "service_completed_successfully"
    assert services()["kafka"]["environment"]["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"


@pytest.mark.parametrize("file", FILES)
def test_every_command_of_ours_is_one_that_the_command_line_takes(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = {name: service for name, service in services(file).items() if "build" in service}
    assert found
    for name, service in found.items():
        if "entrypoint" in service:
            continue
        folder = _mounted(service, ROOT / file)["/etc/spanfuse"].resolve()
        context = parsed([part.replace("/etc/spanfuse", str(folder)) for part in service["command"]])
        assert context.command_path.split()[1] == service["command"][0], name


@pytest.mark.parametrize("name", [name for name in OURS if name != "demo"])
def test_containers_of_ours_write_nowhere_and_have_no_rights(name: str) -> None:
    service = services()[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_the_configuration_has_the_addresses_of_the_services() -> None:
    config, found = _config(), services()
    assert config.receivers.kafka is not None
    assert config.extensions.readmodel is not None
    assert config.receivers.kafka.brokers == "kafka:9092"
    assert "INTERNAL://kafka:9092" in found["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert config.extensions.readmodel.address.get_secret_value() == "redis://redis:6379/0"
    assert found["api"]["ports"] == [f"127.0.0.1:8787:{config.extensions.api.endpoint.rpartition(':')[2]}"]
    assert config.service.telemetry.metrics.endpoint == "0.0.0.0:9464"
    assert found["worker"]["environment"]["SPANFUSE_HEALTH_URL"] == "http://127.0.0.1:9464/healthz"


def test_each_token_that_a_container_presents_is_one_that_the_api_knows() -> None:
    tokens = {token.token.get_secret_value(): token.role for token in _config().extensions.api.tokens}
    demo = services()["demo"]["environment"]
    assert tokens[demo["SPANFUSE_API_TOKEN"]] == "read"
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (ROOT / "docker-compose.yml").read_text())
    assert tokens[yaml.safe_load(text)["configs"]["read-token"]["content"]] == "read"


def test_variables_that_the_configuration_reads_are_given_to_each_container_that_reads_it() -> None:
    asked = set(re.findall(r"\$\{env:(\w+)", (ROOT / "deploy/compose/spanfuse.yaml").read_text()))
    for name in ("topics", "worker", "api"):
        assert asked <= set(services()[name]["environment"]), name


def test_the_collector_is_told_where_kafka_is_and_listens_where_its_ports_are_published() -> None:
    collector = services()["otel-collector"]
    text = (ROOT / "deploy/collector/gateway.yaml").read_text()
    defaults = dict(re.findall(r"\$\{env:(\w+):-([^}]*)\}", text))
    given = {**defaults, **collector["environment"]}
    assert set(re.findall(r"\$\{env:(\w+)", text)) <= given.keys()
    assert given["KAFKA_BROKERS"] == "kafka:9092"
    inside = [port.rpartition(":")[2] for port in collector["ports"]]
    assert inside == [given["OTELCOL_GRPC_PORT"], given["OTELCOL_HTTP_PORT"]]
    assert re.fullmatch(r"0\.0\.0\.0", given["OTELCOL_HOST"])


@pytest.mark.parametrize("image", ["prometheus", "grafana"])
def test_files_that_prometheus_and_grafana_are_configured_with_are_where_they_look(image: str) -> None:
    service = services()[image]
    mounts = _mounted(service, ROOT / "docker-compose.yml")
    if image == "prometheus":
        flag = next(part for part in service["command"] if part.startswith("--config.file="))
        assert (mounts["/etc/prometheus"] / flag.rpartition("/")[2]).is_file()
        scraped = (mounts["/etc/prometheus"] / "prometheus.yml").read_text()
        for file in re.findall(r"credentials_file: ([^\s},]+)", scraped):
            assert file in [config["target"] for config in service["configs"]]
    else:
        provider = (mounts["/etc/grafana/provisioning"] / "dashboards").glob("*.y*ml")
        paths = [path for file in provider for path in re.findall(r"path: (\S+)", file.read_text())]
        assert paths
        assert all(path in mounts for path in paths)


def test_the_single_container_serves_where_its_ports_are_published() -> None:
    (service,) = services("deploy/compose/single.yaml").values()
    config = load_config(ROOT / "deploy/compose/embedded.yaml", TOKENS)
    assert config.receivers.otlp is not None
    protocols = config.receivers.otlp.protocols
    assert protocols.http is not None
    assert protocols.grpc is not None
    inside = {
        endpoint.rpartition(":")[2]
        for endpoint in (protocols.http.endpoint, protocols.grpc.endpoint, config.extensions.api.endpoint)
    }
    assert {port.rpartition(":")[2] for port in service["ports"]} == inside
    assert Path(config.extensions.storage.path).parent.as_posix() in [v.split(":")[1] for v in service["volumes"]]


@pytest.mark.deploy
@pytest.mark.parametrize("file", FILES)
def test_docker_compose_would_load_it(file: str) -> None:
    done = subprocess.run(
        [deploytools(), "compose", ROOT / file],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)["services"]
    assert loaded.keys() == services(file).keys()
    for name, service in services(file).items():
        if isinstance(command := service.get("command"), list):
            assert (loaded[name]["command"] or []) == command


def _config() -> Config:
    return load_config(ROOT / "deploy/compose/spanfuse.yaml", TOKENS)


def _mounted(service: dict[str, Any], file: Path) -> dict[str, Path]:
    """Path within the container → what is mounted there, of files and folders."""
    parts = [volume.split(":") for volume in service.get("volumes", [])]
    return {part[1]: file.parent / part[0] for part in parts}


def test_the_docs_tell_of_every_variable_and_every_port() -> None:
    page = (ROOT / "docs/deploy.md").read_text()
    asked = set(re.findall(r"\$\{(\w+)", "".join((ROOT / file).read_text() for file in FILES)))
    assert all(f"`{name}`" in page for name in asked)
    for service in services().values():
        for port in service.get("ports", []):
            assert port.rpartition(":")[0] in page
