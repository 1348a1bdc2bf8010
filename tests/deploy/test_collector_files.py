"""What the files of deploy/collector say is so: topics, sizes, versions, and what stays where content is left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from deploy.collector import generator
from spanfuse_processor.otlp import whose
from spanfuse_processor.otlp.dialects import DIALECTS, dialect_of
from spanfuse_processor.otlp.dialects.dialect import NAME
from spanfuse_schemas.topics import OTLP_LOGS, OTLP_SPANS, TOPICS
from tests.otlp.fixtures import span
from tests.services.otelcol import CONFIGS, version

ROOT = Path(__file__).parents[2]


def loaded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CONFIGS / name).read_text())
    return found


def test_the_file_that_leaves_content_out_is_that_of_the_tables_of_dialects() -> None:
    assert generator.FILE.read_text() == generator.text(), "make collector"


def test_nothing_that_ingest_reads_as_content_stays() -> None:
    whole, beginnings = generator.content()
    stays = generator.kept() | {"response_data"}
    assert stays & whole == {"response_data"}  # of which only the presence stays
    assert {key for key in stays if key.startswith(tuple(beginnings))} == {
        key for key in stays if key.endswith(".finish_reason") and ".0." in key
    }


def test_every_dialect_is_still_told_by_its_scope_or_by_an_attribute_that_stays() -> None:
    """But for those that are told by content alone where their scope is not known: they are read by the conventions."""
    stays, untold = generator.kept(), set()
    for dialect in DIALECTS:
        marks = {mark if isinstance(mark, str) else mark[0] for mark in dialect.attributes} | {*dialect.overrides}
        if not dialect.scopes and marks and not marks & stays:
            untold.add(dialect.name)
    assert untold == set()


def test_every_attribute_that_tells_the_role_of_a_span_stays() -> None:
    stays = generator.kept()
    assert {roles.attribute for dialect in DIALECTS for roles in dialect.roles} - {NAME} <= stays


def test_what_a_process_says_of_session_user_and_team_stays() -> None:
    keys = {*whose._SESSION_OF_PROCESS, *whose._USER_OF_PROCESS, *whose._TEAM_OF_PROCESS, "service.name"}
    assert keys <= generator.RESOURCE


def test_a_span_without_its_content_speaks_the_same_dialect() -> None:
    found = span({"openinference.span.kind": "LLM", "llm.input_messages.0.message.content": "x"})
    before = dialect_of(found)
    found.attributes = {key: value for key, value in found.attributes.items() if key in generator.kept()}
    assert dialect_of(found) is before
    assert list(found.attributes) == ["openinference.span.kind"]


def test_topics_and_sizes_go_together() -> None:
    """A batch fits a message, with what a trace's part of it adds in names and resources, and a message fits the topic."""
    kafka = loaded("gateway.yaml")["exporters"]["kafka"]
    limits = {int(topic.config["max.message.bytes"]) for topic in TOPICS if topic.name in (OTLP_SPANS, OTLP_LOGS)}
    assert (kafka["traces"]["topic"], kafka["logs"]["topic"]) == (OTLP_SPANS, OTLP_LOGS)
    batch, message = kafka["sending_queue"]["batch"]["max_size"], kafka["producer"]["max_message_bytes"]
    assert batch * 1.1 < message < min(limits)
    assert loaded("agent.yaml")["exporters"]["otlp_grpc"]["sending_queue"]["batch"] == kafka["sending_queue"]["batch"]
    for name in ("agent.yaml", "gateway.yaml"):
        (cut,) = set(re.findall(r"truncate_all\(\w+\.attributes, (\d+)\)", (CONFIGS / name).read_text()))
        assert int(cut) * 3 < batch
        assert int(cut) == generator._MAX_BYTES
        (size,) = re.findall(r"\d+", *loaded(name)["processors"]["filter/unread"]["trace_conditions"])
        assert int(cut) * 3 <= int(size) < batch


def test_both_collectors_take_and_leave_the_same() -> None:
    """What is laid over one can be laid over the other, since both have the same processors for it to change."""
    agent, gateway = loaded("agent.yaml"), loaded("gateway.yaml")
    for name in loaded("without-content.yaml")["processors"]:
        assert agent["processors"][name] == gateway["processors"][name]
        for collector in (agent, gateway):
            assert any(name in pipeline["processors"] for pipeline in collector["service"]["pipelines"].values())


def test_the_image_in_compose_has_the_version_of_the_builder() -> None:
    """All modules of one release."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    assert compose["services"]["otel-collector"]["image"] == f"otel/opentelemetry-collector-contrib:{version()}"
    modules = re.findall(r"- gomod: \S+ v(\S+)", (CONFIGS / "builder.yaml").read_text())
    assert {found for found in modules if found.startswith("0.")} == {version()}


PAGE = (ROOT / "docs" / "collector.md").read_text(encoding="utf-8")


def test_the_page_has_every_variable_with_its_default() -> None:
    told = "\n".join(re.findall(r"^\| `[A-Z].*", PAGE, re.MULTILINE))
    for name in ("agent.yaml", "gateway.yaml", "kafka-sasl.yaml", "durable.yaml"):
        for variable, default in re.findall(r"\$\{env:(\w+)(?::-([^}]*))?\}", (CONFIGS / name).read_text()):
            assert f"`{variable}`" in told, variable
            shown = default if variable != "OTELCOL_QUEUE_BYTES" else f"{int(default) >> 20} MiB"
            assert shown.strip('"') in told, (variable, default)
    variables = {found for row in told.splitlines() for found in re.findall(r"`(\w+)`", row.split("|")[1])}
    files = "".join(file.read_text() for file in CONFIGS.glob("*.yaml"))
    assert {variable for variable in variables if f"${{env:{variable}" not in files} == set()


def test_the_page_has_the_sizes_of_the_files() -> None:
    told = [int(number.replace(",", "")) for number in re.findall(r"^\| .*? \| ([\d,]+) \|", PAGE, re.MULTILINE)]
    gateway = (CONFIGS / "gateway.yaml").read_text()
    kept = [number for number in told if str(number) in gateway]
    assert [*kept, 16 * 1024 * 1024] == sorted(told, key=lambda number: (number == 16 * 1024 * 1024, number))
    assert f"version {version()}" in PAGE
    assert f"opentelemetry-collector-contrib:{version()}" in PAGE
    assert f"cmd/builder@v{version()}" in PAGE
