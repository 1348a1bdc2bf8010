"""Real Collectors with the files of deploy/collector carry spans and logs of real exporters through a real Kafka to a block."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import urllib.error
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from deploy.collector.generator import content
from spanfuse.emission.report_record import EVENT, PREFIX
from spanfuse_processor.otlp.decode import decode
from spanfuse_processor.otlp.logs import CONTENT, content_name
from spanfuse_processor.otlp.reports import is_report
from spanfuse_processor.otlp.span import LogRecord, Span
from spanfuse_schemas.topics import OTLP_LOGS, OTLP_SPANS
from tests.client.test_otel import agent
from tests.integration.test_client_kafka import create as create_topic
from tests.otlp import test_logs
from tests.otlp.fixtures import TRACE, chat, protobuf_bytes, span_id
from tests.services import otelcol
from tests.services.kafka_jars import MissingTool
from tests.services.kafka_secure import SecureKafka
from tests.services.kafka_service import KafkaService
from tests.services.otelcol import Collector
from tests.services.process import wait_until
from tests.support.collected import Behind, behind, worker
from tests.support.stream import read_topic

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


def made_by(session: str, number: int = 1, **more: Any) -> Span:
    """A model call of a session, in a trace of its own: the topics are shared by all these tests."""
    own = {"session.id": session, **more.pop("attributes", {})}
    return chat(id=number, trace=hashlib.md5(f"{session}-{number}".encode()).hexdigest(), attributes=own, **more)


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
    spans = [made_by("secretive", n, attributes={key: SECRET}) for n, key in enumerate(keys, 1)]
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


def test_a_process_sends_more_than_a_message_takes_in_one_batch_and_each_call_counts(fleet: Behind) -> None:
    """One trace of 24 MB, compressed on its way: it goes in several messages of one partition."""
    before = fleet.gateway.metric("otelcol_exporter_sent_spans", exporter="kafka")
    code = f"""
        import os
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http import Compression
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        provider = TracerProvider()
        exporter = OTLPSpanExporter("{fleet.otlp}/v1/traces", compression=Compression.Gzip, timeout=60)
        provider.add_span_processor(BatchSpanProcessor(exporter, max_export_batch_size=300, schedule_delay_millis=60000))
        tracer = provider.get_tracer("agent")
        with tracer.start_as_current_span("run"):
            for number in range(299):
                attributes = {{"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", "session.id": "large"}}
                messages = '[{{"role": "user", "content": "%d %s"}}]' % (number, os.urandom(40000).hex())
                attributes["gen_ai.input.messages"] = messages
                tracer.start_span("chat gpt-4o", attributes=attributes, kind=trace.SpanKind.CLIENT).end()
        provider.shutdown()
    """
    run = agent(code)
    assert (run.returncode, run.stderr) == (0, "")
    fleet.passed(round(before) + 300)
    calls = fleet.calls("large")
    assert (len(calls), {call.content for call in calls}) == (299, {"content"})
    sizes = [size for size in fleet.sizes(OTLP_SPANS) if size > 2_000_000]
    assert len(sizes) >= 2
    assert sum(sizes) > 20_000_000
    assert max(sizes) <= 13_000_000
    assert len(fleet.partitions(OTLP_SPANS, {calls[0].trace_id})) == 1


def test_content_that_is_too_long_is_cut_and_the_call_counts(fleet: Behind) -> None:
    before = fleet.gateway.metric("otelcol_exporter_sent_spans", exporter="kafka")
    long = made_by("long", input=[{"role": "user", "content": "x" * 6_000_000}])
    assert fleet.post("/v1/traces", protobuf_bytes(long)) == 200
    fleet.passed(round(before) + 1)
    (call,) = fleet.calls("long")
    assert (call.tokens.input, call.input) == (100, ":4000000")


def test_a_span_that_no_message_takes_is_left_out_and_counted_and_those_beside_it_pass(fleet: Behind) -> None:
    """Many long values together."""
    parts = {f"part.{number}": "x" * 3_900_000 for number in range(4)}
    request = protobuf_bytes(made_by("huge", 1), made_by("huge", 2, attributes=parts), made_by("huge", 3))
    before = fleet.agent.metric("otelcol_processor_filter_spans_filtered")
    assert fleet.post("/v1/traces", request) == 200
    wait_until(
        lambda: {call.span_id for call in fleet.calls("huge")} == {span_id(1), span_id(3)}, "the others are counted"
    )
    assert fleet.agent.metric("otelcol_processor_filter_spans_filtered") == before + 1


FORMS = [
    LogRecord(TRACE, span_id(1), "gen_ai.choice", attributes={"content": "x"}),
    LogRecord(TRACE, span_id(1), attributes={"event.name": "gen_ai.choice", "content": "x"}),
    LogRecord(TRACE, span_id(1), attributes={"event_name": "gen_ai.choice", "content": "x"}),
    LogRecord(TRACE, span_id(1), body="gen_ai.choice", attributes={"content": "x"}),
    LogRecord(TRACE, span_id(1), body={"event.name": "gen_ai.choice", "content": "x"}),
    LogRecord(TRACE, span_id(1), body={"event_name": "gen_ai.choice", "content": "x"}),
    LogRecord(
        TRACE, span_id(1), body="claude_code.api_request", attributes={"event.name": "api_request", "cost_usd": 1}
    ),
    LogRecord("", "", EVENT, attributes={f"{PREFIX}source": "s"}),
    LogRecord("", "", attributes={"event.name": EVENT, f"{PREFIX}source": "s"}),
    *(LogRecord(TRACE, span_id(1), name, attributes={"content": "x"}) for name in sorted(CONTENT)),
]
"""All in which content, figures and reports come."""
OTHERS = [
    LogRecord(TRACE, span_id(1), "http.request", body="GET /"),
    LogRecord(TRACE, span_id(1), body="the model said gen_ai.choice"),
    LogRecord(TRACE, span_id(1), body={"message": "gen_ai.choice"}, attributes={"event.name": "user_prompt"}),
    LogRecord("", "", body='{"level": "info"}'),
]


def test_records_that_workers_read_pass_and_other_logs_do_not(fleet: Behind) -> None:
    marked = [
        replace(record, attributes={**record.attributes, "form": n}) for n, record in enumerate([*FORMS, *OTHERS])
    ]
    assert fleet.post("/v1/logs", test_logs.protobuf_bytes(*marked)) == 200
    expected = {*range(len(FORMS))}
    assert all(content_name(record) or is_report(record) for record in FORMS[: -len(CONTENT)])
    wait_until(lambda: expected <= fleet.forms(), "they are on the topic")
    assert fleet.forms() == expected


def test_nothing_is_lost_while_kafka_is_away(fleet: Behind, kafka: KafkaService) -> None:
    """Spans wait in the gateway's queue, are sent once Kafka is back, and each call counts once."""
    if not kafka.managed:
        pytest.skip("the broker of SPANFUSE_TEST_KAFKA is not ours to kill")
    before = fleet.gateway.metric("otelcol_exporter_sent_spans", exporter="kafka")
    kafka.kill()
    try:
        for number in range(1, 41):
            found = made_by("waiting", number)
            assert fleet.post("/v1/traces", protobuf_bytes(found)) == 200
        wait_until(lambda: fleet.gateway.metric("otelcol_exporter_queue_size", data_type="traces") > 0, "they wait")
    finally:
        kafka.start()
    fleet.passed(round(before) + 40, 90)
    assert len(fleet.calls("waiting")) == 40


def test_what_the_gateways_queue_cannot_hold_waits_on_the_node(
    fleet: Behind, kafka: KafkaService, tmp_path: Path
) -> None:
    """A gateway that is full refuses, also those who send to it without a Collector of their own."""
    if not kafka.managed:
        pytest.skip("the broker of SPANFUSE_TEST_KAFKA is not ours to kill")
    with behind(tmp_path, fleet.brokers, OTELCOL_QUEUE_BYTES="20000000") as small:
        kafka.kill()
        try:
            for number in range(1, 31):
                found = made_by("overflowing", number, input=f"{number} {'x' * 1_000_000}")
                assert small.post("/v1/traces", protobuf_bytes(found)) == 200
            wait_until(lambda: small.gateway.metric("otelcol_receiver_refused_spans") > 0, "the gateway refuses")
            with pytest.raises(urllib.error.HTTPError, match="503"):
                small.post(
                    "/v1/traces",
                    protobuf_bytes(*(made_by("overflowing", 99, input="x" * 3_900_000) for _ in range(5))),
                    small.gateway,
                )
        finally:
            kafka.start()
        small.passed(30, 90)
        assert len(small.calls("overflowing")) == 30


def test_what_waits_outlives_the_process_where_the_queue_is_on_disk(
    fleet: Behind, kafka: KafkaService, tmp_path: Path
) -> None:
    """Kafka is away, and the gateway is killed: a new one sends what the first has taken."""
    if not kafka.managed:
        pytest.skip("the broker of SPANFUSE_TEST_KAFKA is not ours to kill")
    with behind(tmp_path, fleet.brokers, over_gateway=["durable.yaml"]) as durable:
        kafka.kill()
        try:
            for number in range(1, 21):
                found = made_by("durable", number)
                assert durable.post("/v1/traces", protobuf_bytes(found), durable.gateway) == 200
            durable.gateway.process.kill()
        finally:
            kafka.start()
        durable.gateway.start()
        durable.passed(20, 90)
        assert len(durable.calls("durable")) == 20


def test_a_gateway_speaks_to_a_broker_with_passwords_over_tls(secure_kafka: SecureKafka, tmp_path: Path) -> None:
    """Names and the certificate of the authority come from variables."""
    settings = secure_kafka.client_settings()
    create_topic(secure_kafka.brokers, OTLP_SPANS, **settings)
    variables = {
        "KAFKA_BROKERS": secure_kafka.brokers,
        "KAFKA_USER": secure_kafka.user,
        "KAFKA_PASSWORD": secure_kafka.password,
        "KAFKA_CA_FILE": secure_kafka.cafile,
    }
    gateway = Collector(tmp_path, ["gateway.yaml", "kafka-sasl.yaml"], variables).start()
    try:
        Behind(secure_kafka.brokers, gateway, gateway).post("/v1/traces", protobuf_bytes(chat()))
        wait_until(lambda: gateway.metric("otelcol_exporter_sent_spans") == 1, "it is sent")
    finally:
        gateway.process.stop()
    (record,) = asyncio.run(read_topic(secure_kafka.brokers, OTLP_SPANS, **settings))
    assert [span.span_id for span in decode(record.value, "protobuf")] == [span_id(1)]
