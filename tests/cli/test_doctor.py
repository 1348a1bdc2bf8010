"""`doctor` on the command line: what spans can be used for, and what is in the way."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from spanfuse.fingerprints import of_call
from spanfuse_processor.hosts.doctor import sample as sampled
from spanfuse_processor.hosts.doctor.checks import CHECKS, findings
from spanfuse_processor.hosts.doctor.sample import Sample
from spanfuse_processor.hosts.doctor.sampling import share_sampled
from spanfuse_processor.otlp.span import Span
from tests.cli.conftest import Spanfuse
from tests.otlp.fixtures import NOW_NS, SECOND, chat, json_bytes, says, span
from tests.services.kafka_broker import LocalKafka
from tests.support.reports import report

HOUR_NS = 3600 * SECOND
GOOD: dict[str, Any] = {"session.id": "run-42", "gen_ai.agent.name": "planner", "user.id": "ada"}


def good(number: int = 1, **more: Any) -> Span:
    """A model call that lacks nothing; `more` are its attributes."""
    asked = {"input": [says(f"Question {number}")], "output": [says(f"Answer {number}", "assistant")]}
    return chat(id=number, at=number, attributes={**GOOD, **more}, **asked)


def written(folder: Path, *spans: Span, **options: Any) -> Path:
    path = folder / "r.json"
    path.write_bytes(json_bytes(*spans, **options))
    return path


def checked(spanfuse: Spanfuse, *arguments: object, exit_code: int | None = None) -> dict[str, dict[str, Any]]:
    """The findings by check."""
    ran = spanfuse("doctor", *arguments, "--format", "json")
    found = {f["check"]: f for f in json.loads(ran.stdout)["findings"]}
    assert ran.exit_code == any(f["severity"] == "problem" for f in found.values())
    return found


def finding(spanfuse: Spanfuse, folder: Path, check: str, *spans: Span) -> tuple[str, int, int]:
    """Severity of one check, how many are concerned, and of how many."""
    found = checked(spanfuse, written(folder, *spans))[check]
    if found["severity"] != "ok":
        assert found["means"]
        assert found["do"]
    return found["severity"], found["count"], found["of"]


def test_a_recording_that_lacks_nothing_has_neither_problem_nor_warning(spanfuse: Spanfuse, tmp_path: Path) -> None:
    found = checked(spanfuse, written(tmp_path, *(good(n) for n in range(1, 9))))
    assert {f["severity"] for f in found.values()} == {"ok"}
    assert len(found) == len(CHECKS)
    assert found["dialects"]["what"] == "calls speak genai (8)"


def test_spans_without_a_model_call_are_a_problem_and_say_what_they_are(spanfuse: Spanfuse, tmp_path: Path) -> None:
    path = written(tmp_path, span({"http.method": "GET"}, name="GET"))
    assert checked(spanfuse, path)["calls"]["severity"] == "problem"
    assert "1 × no model call" in checked(spanfuse, path)["left out"]["what"]


def test_calls_that_are_each_a_trace_of_their_own_cannot_be_followed(spanfuse: Spanfuse, tmp_path: Path) -> None:
    alone = [chat(id=n, trace=f"{n:032x}") for n in range(1, 7)]
    assert finding(spanfuse, tmp_path, "session", *alone) == ("problem", 6, 6)


def test_calls_that_share_a_trace_can_be_followed_within_it(spanfuse: Spanfuse, tmp_path: Path) -> None:
    assert finding(spanfuse, tmp_path, "session", *(chat(id=n, at=n) for n in range(1, 7))) == ("warn", 6, 6)


def test_it_is_told_how_many_sessions_are_inherited(spanfuse: Spanfuse, tmp_path: Path) -> None:
    parent = span({"gen_ai.operation.name": "invoke_agent", **GOOD}, id=9)
    found = checked(spanfuse, written(tmp_path, chat(id=1, parent=9), good(2), parent))["session"]
    assert found["severity"] == "ok"
    assert "1 calls say their own, 1 inherit one, 0 have none" in found["what"]


def test_r086_several_users_in_one_session_are_a_problem(spanfuse: Spanfuse, tmp_path: Path) -> None:
    """Two conversations under one id are judged as one."""
    users = [good(n, **{"user.id": f"user-{n}"}) for n in range(3)]
    assert finding(spanfuse, tmp_path, "shared session", *users) == ("problem", 1, 1)


def test_r086_several_services_in_one_session_are_a_warning(spanfuse: Spanfuse, tmp_path: Path) -> None:
    """They may work on one task, or have met by chance."""
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"\n".join(json_bytes(good(n), resource={"service.name": f"svc-{n}"}) for n in (1, 2)))
    assert checked(spanfuse, path)["shared session"]["severity"] == "warn"


def test_missing_usage_is_a_problem_where_most_calls_lack_it(spanfuse: Spanfuse, tmp_path: Path) -> None:
    lacking = {"gen_ai.usage.input_tokens": None, "gen_ai.usage.output_tokens": None}
    assert finding(spanfuse, tmp_path, "usage", good(1, **lacking), good(2, **lacking), good(3)) == ("problem", 2, 3)
    assert finding(spanfuse, tmp_path, "usage", good(1, **lacking), good(2), good(3)) == ("warn", 1, 3)


def test_models_without_a_price_are_named(spanfuse: Spanfuse, tmp_path: Path) -> None:
    path = written(tmp_path, good(1, **{"gen_ai.request.model": "house-model"}), good(2))
    found = checked(spanfuse, path)["price"]
    assert (found["severity"], found["count"]) == ("warn", 1)
    assert "openai/house-model" in found["what"]
    config = tmp_path / "c.yaml"
    config.write_text("pricing: {models: {house-model: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}}}\n")
    assert checked(spanfuse, path, "--config", config)["price"]["severity"] == "ok"


def test_r088_no_content_at_all_is_a_problem_and_fingerprints_are_as_good(spanfuse: Spanfuse, tmp_path: Path) -> None:
    """Rules on structure can warn, no more."""
    bare = [chat(id=n, at=n, attributes=GOOD) for n in (1, 2)]
    assert finding(spanfuse, tmp_path, "content", *bare) == ("problem", 2, 2)
    stated = [chat(id=n, at=n, attributes={**GOOD, **of_call(f"Question {n}", None)}) for n in (1, 2)]
    assert finding(spanfuse, tmp_path, "content", *stated) == ("ok", 0, 2)
    assert finding(spanfuse, tmp_path, "content", good(3), bare[0]) == ("warn", 1, 2)


def test_r087_content_that_was_cut_is_a_warning(spanfuse: Spanfuse, tmp_path: Path) -> None:
    cut = good(1, **{"gen_ai.input.messages": '[{"role":"user","parts":[{"con'})
    assert finding(spanfuse, tmp_path, "truncated", cut, good(2)) == ("warn", 1, 2)


def test_fingerprints_of_one_session_under_several_keys_are_a_warning(spanfuse: Spanfuse, tmp_path: Path) -> None:
    def stated(number: int, key: str) -> Span:
        (attribute, text), *_ = of_call(f"Question {number}", None).items()
        return good(number, **{attribute: json.dumps({**json.loads(text), "key": key})})

    assert finding(spanfuse, tmp_path, "fingerprint key", stated(1, "aa"), stated(2, "bb")) == ("warn", 1, 1)
    assert finding(spanfuse, tmp_path, "fingerprint key", stated(1, "aa"), stated(2, "aa")) == ("ok", 0, 1)


def test_fingerprints_under_another_key_than_the_workers_are_a_warning(
    spanfuse: Spanfuse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, kept in (("_shared", False), ("_key", b"0" * 16)):
        monkeypatch.setattr(f"spanfuse_schemas.wording.{name}", kept)
    path = written(tmp_path, good(1, **of_call("Question", None)))
    assert checked(spanfuse, path)["fingerprint key"]["severity"] == "ok"
    config = tmp_path / "c.yaml"
    config.write_text("service: {fingerprint_key: of all workers}\n")
    assert checked(spanfuse, path, "--config", config)["fingerprint key"]["severity"] == "warn"


def test_fingerprints_that_were_cut_are_a_warning(spanfuse: Spanfuse, tmp_path: Path) -> None:
    cut = {key: text[:40] for key, text in of_call("Question", None).items()}
    assert finding(spanfuse, tmp_path, "truncated", good(1, **cut), good(2)) == ("warn", 1, 2)


def test_r081_a_span_that_comes_twice_counts_once(spanfuse: Spanfuse, tmp_path: Path) -> None:
    assert finding(spanfuse, tmp_path, "delivered again", good(1), good(1)) == ("warn", 1, 2)
    assert checked(spanfuse, written(tmp_path, good(1), good(1)))["calls"]["count"] == 1


def test_r082_spans_that_are_equal_but_for_their_id_are_a_warning(spanfuse: Spanfuse, tmp_path: Path) -> None:
    one = replace(good(1), parent_span_id="e" * 16)
    twin = replace(one, span_id="f" * 16)
    assert finding(spanfuse, tmp_path, "twins", one, twin) == ("warn", 1, 2)
    assert checked(spanfuse, written(tmp_path, one, twin))["calls"]["count"] == 1


def test_r082_twins_that_cannot_be_told_from_two_calls_are_a_problem(spanfuse: Spanfuse, tmp_path: Path) -> None:
    """Both count."""
    assert finding(spanfuse, tmp_path, "twins", good(1), replace(good(1), span_id="f" * 16)) == ("problem", 1, 2)


def test_r080_a_call_that_two_instrumentations_tell_of_is_no_problem(spanfuse: Spanfuse, tmp_path: Path) -> None:
    inner = replace(good(2), parent_span_id=f"{1:016x}", scope="openai")
    outer = replace(good(1), start_ns=inner.start_ns, end_ns=inner.end_ns + SECOND)
    assert finding(spanfuse, tmp_path, "nested", outer, inner) == ("ok", 1, 2)
    assert finding(spanfuse, tmp_path, "twins", outer, inner) == ("ok", 0, 2)


@pytest.mark.parametrize(
    ("state", "attributes", "share"),
    [
        ("", {}, 1),
        ("vendor=1", {}, 1),
        ("ot=th:0", {}, 1),
        ("ot=th:8", {}, 0.5),
        ("vendor=x,ot=rv:abcdefabcdefab;th:e6666666666666", {}, 0.1),
        ("ot=r:5;p:3", {}, 0.125),
        ("ot=p:63", {}, 1),
        ("ot=th:xyz", {}, 1),
        ("", {"SampleRate": 10}, 0.1),
        ("", {"sampling.probability": 0.25}, 0.25),
        ("", {"SampleRate": "many"}, 1),
    ],
)
def test_r099_how_spans_were_sampled_is_read_from_what_samplers_leave(
    state: str, attributes: dict[str, Any], share: float
) -> None:
    """In the trace state as OpenTelemetry's conventions have it, or in attributes."""
    assert share_sampled(replace(span(attributes), trace_state=state)) == pytest.approx(share)


def test_r099_sampled_input_is_a_problem(spanfuse: Spanfuse, tmp_path: Path) -> None:
    """Budgets are not enforceable from what is left."""
    kept = [good(n, **{"sampling.probability": 0.1}) for n in range(1, 4)]
    found = checked(spanfuse, written(tmp_path, *kept))["sampling"]
    assert (found["severity"], found["count"]) == ("problem", 3)
    assert "10 %" in found["what"]
    assert "budgets cannot be enforced" in found["means"]


def arrived(*came: tuple[Span, int, int]) -> dict[str, tuple[str, int]]:
    """Severity and count of each check of spans that came (span, at, on partition)."""
    sample = Sample()
    for one, at_ns, partition in came:
        sample.arrived([one], at_ns, partition)
    return {found.check: (found.severity, found.count) for found in findings(sample, Counter())}


def test_r097_a_clock_that_is_wrong_by_hours_is_seen_by_the_brokers() -> None:
    """By the end of the span: one that lasted for a day is no error."""
    late, long = good(1), replace(good(2), start_ns=NOW_NS - 27 * HOUR_NS, end_ns=NOW_NS)
    assert arrived((late, late.end_ns + 27 * HOUR_NS, 0))["clock"] == ("problem", 1)
    assert arrived((late, late.end_ns - HOUR_NS, 0))["clock"] == ("problem", 1)
    assert arrived((long, NOW_NS, 0))["clock"] == ("ok", 0)


def test_one_wrong_clock_among_many_is_a_warning() -> None:
    came = [(good(n), good(n).end_ns, 0) for n in range(1, 40)]
    assert arrived(*came, (good(40), good(40).end_ns + 2 * HOUR_NS, 0))["clock"] == ("warn", 1)


def test_a_trace_on_several_partitions_is_a_warning() -> None:
    """One worker may not know what the parent says."""
    assert arrived((good(1), NOW_NS, 0), (good(2), NOW_NS, 1))["partitions"] == ("warn", 1)
    assert arrived((good(1), NOW_NS, 0), (good(2), NOW_NS, 0))["partitions"] == ("ok", 0)


def test_memory_is_bounded_whatever_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "MAX_KEYS", 10)
    sample = Sample()
    for number in range(1, 100):
        sample.arrived([chat(id=number, trace=f"{number:032x}")], NOW_NS, number)
    assert len(sample.traces.values) == 10
    assert len(sample._ids) == 10


def test_bytes_that_are_no_spans_are_told_of(spanfuse: Spanfuse, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"garbage\n" + json_bytes(good(1)))
    ran = spanfuse("doctor", path)
    assert "1 requests were read, 1 could not be decoded" in " ".join(ran.stdout.split())
    assert "r.jsonl:1" in ran.stderr


def test_text_has_the_worst_first_and_fits_80_columns(spanfuse: Spanfuse, tmp_path: Path) -> None:
    ran = spanfuse("doctor", written(tmp_path, *(chat(id=n, trace=f"{n:032x}") for n in range(1, 7))))
    lines = ran.stdout.splitlines()
    order = [line.split()[0] for line in lines if line.startswith(("  problem", "  warn", "  ok"))]
    assert order == sorted(order, key=["problem", "warn", "ok"].index)
    assert order[0] == "problem"
    assert max(map(len, lines)) <= 80
    assert lines[-1].endswith("checks are all right.")
    assert ran.exit_code == 1


def test_no_text_of_anybody_is_shown(spanfuse: Spanfuse, tmp_path: Path) -> None:
    ran = spanfuse("doctor", written(tmp_path, good(1, **{"gen_ai.input.messages": "secret-123"})))
    assert "secret" not in ran.stdout


@pytest.mark.parametrize("arguments", [(), ("--topic", "otlp_spans")])
def test_files_or_a_topic_and_its_brokers_are_needed(spanfuse: Spanfuse, arguments: tuple[str, ...]) -> None:
    assert spanfuse("doctor", *arguments).exit_code == 2


@pytest.mark.integration
def test_the_newest_messages_of_a_topic_are_checked(kafka: LocalKafka, spanfuse: Spanfuse) -> None:
    """With their partitions and the time at which the broker has them; no consumer group comes to be."""
    topic = f"doctor-{time.time_ns()}"
    groups = asyncio.run(_filled(kafka.brokers, topic))
    found = checked(spanfuse, "--topic", topic, "--brokers", kafka.brokers)
    assert found["calls"]["count"] == 20
    assert (found["clock"]["severity"], found["clock"]["count"]) == ("problem", 1)
    assert (found["partitions"]["severity"], found["partitions"]["count"]) == ("warn", 1)
    assert found["requests"]["count"] == 1
    assert checked(spanfuse, "--topic", topic, "--brokers", kafka.brokers, "--messages", 4)["requests"]["of"] == 4
    recent = checked(spanfuse, "--topic", topic, "--brokers", kafka.brokers, "--minutes", 30)
    assert recent["requests"]["of"] == 20
    assert asyncio.run(_groups(kafka.brokers)) == groups


@pytest.mark.integration
def test_content_that_was_logged_is_found_in_the_topic_of_logs(kafka: LocalKafka, spanfuse: Spanfuse) -> None:
    spans, logs = (f"doctor-{time.time_ns()}-{kind}" for kind in ("spans", "logs"))
    bare = chat(attributes=GOOD)
    record = {
        "traceId": bare.trace_id,
        "spanId": bare.span_id,
        "eventName": "gen_ai.user.message",
        "body": {"stringValue": '{"content": "Hi"}'},
    }
    request = ParseDict(
        {"resourceLogs": [{"scopeLogs": [{"logRecords": [{**record, **_in_base64(bare)}]}]}]},
        ExportLogsServiceRequest(),
    )
    asyncio.run(_sent(kafka.brokers, {spans: json_bytes(bare), logs: request.SerializeToString()}))
    asked = ("--brokers", kafka.brokers, "--topic", spans)
    assert checked(spanfuse, *asked)["content"]["count"] == 1
    found = checked(spanfuse, *asked, "--topic", logs)
    assert (found["content"]["count"], found["logs"]["of"]) == (0, 1)


@pytest.mark.integration
def test_a_topic_that_is_not_there_is_told_and_not_made(kafka: LocalKafka, spanfuse: Spanfuse) -> None:
    for _ in range(2):
        ran = spanfuse("doctor", "--topic", "no-such-topic", "--brokers", kafka.brokers)
        assert ran.exit_code == 1
        assert "no topic no-such-topic" in ran.stderr


def _in_base64(span: Span) -> dict[str, str]:
    """Ids as protobuf's own reading of JSON wants them."""
    ids = {"traceId": span.trace_id, "spanId": span.span_id}
    return {key: base64.b64encode(bytes.fromhex(value)).decode() for key, value in ids.items()}


async def _sent(brokers: str, values: dict[str, bytes]) -> None:
    """A message for each topic, which comes to be."""
    await _made(brokers, *values)
    async with AIOKafkaProducer(bootstrap_servers=brokers) as producer:
        for topic, value in values.items():
            await producer.send_and_wait(topic, value)


async def _made(brokers: str, *topics: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
    await admin.start()
    await admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1) for topic in topics])
    await admin.close()


async def _filled(brokers: str, topic: str) -> set[str]:
    """Twenty good messages on two partitions, one of them two hours old, and one that is none; the groups there are."""
    await _made(brokers, topic)
    async with AIOKafkaProducer(bootstrap_servers=brokers) as producer:
        now_ns = time.time_ns()
        for number in range(20):
            one = replace(good(number + 1), start_ns=now_ns - SECOND, end_ns=now_ns)
            one.trace_id = f"{1 + number // 2 % 5 + 10 * (number % 2) * (number > 1):032x}"
            old = number == 19
            sent_ms = now_ns // 1_000_000 - old * 7_200_000
            await producer.send_and_wait(topic, json_bytes(one), partition=number % 2, timestamp_ms=sent_ms)
        await producer.send_and_wait(topic, b"\xff\x00", partition=0)
    return await _groups(brokers)


async def _groups(brokers: str) -> set[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
    await admin.start()
    try:
        return {group for group, *_ in await admin.list_consumer_groups()}
    finally:
        await admin.close()


@pytest.mark.parametrize(
    ("admitted", "expected"), [(8, ("ok", 0, 8)), (9, ("problem", 1, 9)), (100, ("problem", 92, 100))]
)
def test_calls_that_guards_let_through_are_compared_with_those_that_are_here(
    spanfuse: Spanfuse, tmp_path: Path, admitted: int, expected: tuple[str, int, int]
) -> None:
    """A report that is there twice counts once."""
    spans = written(tmp_path, *(good(n) for n in range(1, 9)))
    until_ns = good(8).end_ns
    told = report(admitted, until_ns=until_ns, since_ns=until_ns - SECOND, spans_dropped=3)
    (tmp_path / "r.logs.json").write_bytes(told + b"\n" + told)
    found = checked(spanfuse, spans, tmp_path / "r.logs.json")["coverage"]
    assert (found["severity"], found["count"], found["of"]) == expected
    assert "could not send 3 spans" in found["what"]


def test_without_reports_coverage_is_unknown(spanfuse: Spanfuse, tmp_path: Path) -> None:
    assert checked(spanfuse, written(tmp_path, good()))["coverage"]["what"].startswith("unknown")
