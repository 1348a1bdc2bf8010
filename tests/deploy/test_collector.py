"""Real Collectors with the files of deploy/collector carry spans and logs of real exporters through a real Kafka to a block."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from deploy.collector.generator import content
from spanfuse.emission.report_record import EVENT, PREFIX
from spanfuse_processor.otlp.decode import decode
from spanfuse_processor.otlp.logs import CONTENT
from spanfuse_schemas.topics import OTLP_LOGS, OTLP_SPANS
from tests.otlp import test_logs
from tests.otlp.fixtures import chat, protobuf_bytes
from tests.services import otelcol
from tests.services.kafka_jars import MissingTool
from tests.services.kafka_service import KafkaService
from tests.support.collected import Behind, behind, worker

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(300)]

COMBINATIONS = [
    ["agent.yaml"],
    ["agent.yaml", "without-content.yaml"],
    ["gateway.yaml"],
    ["gateway.yaml", "without-content.yaml"],
    ["gateway.yaml", "durable.yaml"],
    ["gateway.yaml", "kafka-sasl.yaml"],
    ["gateway.yaml", "without-content.yaml", "durable.yaml", "kafka-sasl.yaml"],
]
SECRET = "the-secret-of-all-secrets"
VARIABLES = {"KAFKA_BROKERS": "a:9092,b:9092", "KAFKA_USER": "spanfuse", "KAFKA_PASSWORD": "x", "SPANFUSE_TEAM": "shop"}


@pytest.fixture(scope="module", autouse=True)
def collector() -> Path:
    try:
        return otelcol.binary()
    except MissingTool as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def fleet(kafka: KafkaService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    folder = tmp_path_factory.mktemp("fleet")
    with worker(folder, kafka.brokers), behind(folder, kafka.brokers) as running:
        yield running


def test_the_version_is_the_pinned_one(collector: Path) -> None:
    told = subprocess.run([collector, "--version"], capture_output=True, text=True, timeout=20).stdout
    assert told.split()[-1] == otelcol.version()


@pytest.mark.parametrize("files", COMBINATIONS, ids="+".join)
def test_a_collector_accepts_each_file_and_what_is_laid_over_it(
    collector: Path, files: list[str], tmp_path: Path
) -> None:
    configs = [argument for name in files for argument in ("--config", str(otelcol.CONFIGS / name))]
    environment = {**VARIABLES, "OTELCOL_STORAGE": str(tmp_path)}
    told = subprocess.run(
        [collector, "validate", *configs], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (told.returncode, told.stderr) == (0, "")


def reading(session: str, file: str = "a.txt", calls: int = 8) -> dict[str, Any]:
    """An agent that reads the same file for ever: the plan of `tests.support.wire_agent`."""
    asked = {"role": "user", "parts": [{"type": "text", "content": f"What is in {file}?"}]}
    asks = {"type": "tool_call", "id": "c", "name": "read", "arguments": {"path": file}}
    output = {"role": "assistant", "parts": [asks]}
    brings = {"type": "tool_call_response", "id": "c", "response": f"{file}: nothing of any use to anybody"}
    turn = [output, {"role": "tool", "parts": [brings]}]
    steps = [{"messages": [asked, *turn * number], "output": output} for number in range(calls)]
    return {"session": session, "calls": steps, "pause_s": 1}


def test_a_loop_is_stopped_whose_spans_come_through_both_collectors(fleet: Behind) -> None:
    """At the call at which it would be stopped without them, and each call that was made is counted once."""
    outcome = fleet.run(reading("looping"))
    assert (outcome["allowed"], outcome["blocked_by"]) == (3, "repeat.no_progress")
    assert len(fleet.calls("looping")) == 3


def test_a_loop_is_stopped_that_shows_in_logs_alone(fleet: Behind) -> None:
    """The content of a call is on the partition of its span, and the call counts once."""
    outcome = fleet.run(reading("logging") | {"tells": "logs"})
    assert (outcome["allowed"], outcome["blocked_by"]) == (3, "repeat.no_progress")
    calls = fleet.calls("logging")
    assert [call.content for call in calls] == ["content"] * 3
    traces = {call.trace_id for call in calls}
    assert fleet.partitions(OTLP_LOGS, traces) == fleet.partitions(OTLP_SPANS, traces)


def secret_spans() -> bytes:
    """A model call for each place in which some dialect, or nobody, keeps content."""
    whole, beginnings = content()
    keys = [*whole, *(f"{prefix}0.message.content" for prefix in beginnings), "my.own.attribute", "error.message"]
    spans = [
        chat(id=n, trace=f"{n:032x}", attributes={"session.id": "secretive", key: SECRET})
        for n, key in enumerate(keys, 1)
    ]
    request = ExportTraceServiceRequest.FromString(protobuf_bytes(*spans))
    (group,) = request.resource_spans
    group.resource.attributes.add(key="process.command_args").value.string_value = SECRET
    for scoped in group.scope_spans:
        scoped.scope.attributes.add(key="x").value.string_value = SECRET
        for span in scoped.spans:
            span.status.message = span.trace_state = SECRET
            if span.span_id[-1] % 2:
                span.events.add(name="exception").attributes.add(key="exception.message").value.string_value = SECRET
                span.events.add(name=SECRET).attributes.add(key="content").value.string_value = SECRET
    return bytes(request.SerializeToString())


def secret_logs() -> bytes:
    """Records with content, and one that is taken: a report of a Guard."""
    told: dict[str, Any] = {f"{PREFIX}source": "s", f"{PREFIX}seq": 1, "text": SECRET}
    named = [(name, {"content": SECRET}) for name in sorted(CONTENT | {"app.log"})]
    return test_logs.protobuf_bytes(*(test_logs.record(name, body, **told) for name, body in [*named, (EVENT, SECRET)]))


def test_no_content_is_on_any_topic_where_it_is_left_out_and_a_loop_is_stopped_by_its_fingerprints(
    fleet: Behind, tmp_path: Path
) -> None:
    """Whatever dialect a span speaks; and each call counts. Without that file the same content is there to be found."""
    spans, logs = secret_spans(), secret_logs()
    with behind(tmp_path, fleet.brokers, ["without-content.yaml"]) as closed:
        outcome = closed.run(reading("printed", SECRET) | {"tells": "prints"})
        assert (outcome["allowed"], outcome["blocked_by"]) == (3, "repeat.no_progress")
        assert (closed.post("/v1/traces", spans), closed.post("/v1/logs", logs)) == (200, 200)
        closed.passed(3 + len(decode(spans, "protobuf")))
        assert [call.content for call in closed.calls("printed")] == ["fingerprint"] * 3
        calls = closed.calls("secretive")
    assert {call.span_id for call in calls} == {span.span_id for span in decode(spans, "protobuf")}
    assert {(call.content, call.tokens.input, call.model) for call in calls} == {("structure", 100, "gpt-4o-mini")}
    assert fleet.holding([SECRET]) == {}
    assert (fleet.post("/v1/traces", spans), fleet.post("/v1/logs", logs)) == (200, 200)
    fleet.calls("secretive")
    assert fleet.holding([SECRET]).keys() == {OTLP_SPANS, OTLP_LOGS}
