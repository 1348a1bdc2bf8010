"""Reports of Guards among log records: what the client writes is what ingest reads."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from spanfuse.emission.report_record import request_of
from spanfuse_processor.core.pricing import Prices
from spanfuse_processor.otlp.decode import Encoding, decode_logs
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_processor.otlp.reports import MAX_ROWS, is_report, report_of
from spanfuse_processor.otlp.split import split_logs
from spanfuse_processor.otlp.times import MAX_AHEAD_NS
from spanfuse_schemas.guard_report import CallsMade, GuardReport, Refused
from tests.otlp import test_logs
from tests.otlp.fixtures import NOW_NS, SECOND
from tests.support.reports import report

FULL: dict[str, Any] = {
    "source": "a1b2",
    "seq": 7,
    "since_ns": NOW_NS - 5 * SECOND,
    "until_ns": NOW_NS,
    "calls": [{"agent": "planner", "team": "shop", "calls": 12}, {"agent": "", "team": "", "calls": 1}],
    "checks": 0,
    "refusals": [{"key": "session:run-1", "rule": "cycle", "blocked": 1_000_000, "would_block": 0}],
    "nudged": 2,
    "probes": 1,
    "errors": 0,
    "spans_dropped": 512,
    "state": "ready",
    "age_s": 0.25,
}
READ = GuardReport(
    source="a1b2",
    seq=7,
    since_ns=NOW_NS - 5 * SECOND,
    until_ns=NOW_NS,
    calls=(CallsMade(agent="planner", team="shop", calls=12), CallsMade(calls=1)),
    refusals=(Refused(key="session:run-1", rule="cycle", blocked=1_000_000),),
    nudged=2,
    probes=1,
    spans_dropped=512,
    state="ready",
    age_s=0.25,
)


def in_protobuf(data: bytes) -> bytes:
    """The same as a Collector passes it on, once it has read it."""
    found: bytes = ParseDict(json.loads(data), ExportLogsServiceRequest()).SerializeToString()
    return found


def encoded(data: bytes, encoding: Encoding) -> bytes:
    return data if encoding == "json" else in_protobuf(data)


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
def test_what_a_client_writes_is_read(encoding: Encoding) -> None:
    (record,) = decode_logs(encoded(request_of(FULL), encoding), encoding)
    assert is_report(record)
    assert report_of(record, NOW_NS) == READ


def test_a_million_refusals_are_a_small_record() -> None:
    assert len(request_of(FULL)) < 2_500


def test_a_receiver_that_does_not_know_event_names_passes_the_attribute_on() -> None:
    body = json.loads(request_of(FULL))
    del body["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["eventName"]
    (record,) = decode_logs(json.dumps(body).encode(), "json")
    assert is_report(record)
    assert report_of(record, NOW_NS) == READ


@pytest.mark.parametrize(
    "wrong",
    [
        {"source": ""},
        {"source": "x" * 65},
        {"seq": 0},
        {"seq": -1},
        {"until_ns": "soon"},
        {"calls": "many"},
        {"calls": [{"agent": "a", "calls": -5}]},
        {"calls": [{"agent": "a", "calls": 2**63}]},
        {"calls": [{"agent": "a", "calls": 1}] * (MAX_ROWS + 1)},
        {"refusals": [{"key": ""}]},
        {"spans_dropped": 1.5},
        {"age_s": "nan"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_is_no_report_is_counted_and_hurts_nobody(wrong: dict[str, Any]) -> None:
    normaliser = Normaliser(Prices())
    batch = normaliser.logs(decode_logs(request_of({**FULL, **wrong}), "json"), NOW_NS)
    assert batch.reports == ()
    assert normaliser.counters == Counter(reports_unreadable=1)


def test_names_are_as_spans_have_them() -> None:
    long = "x" * 300
    data = report(3, until_ns=NOW_NS, agent=" planner ", refusals=[{"key": f"session: {long}", "blocked": 1}])
    (found,) = Normaliser(Prices()).logs(decode_logs(data, "json"), NOW_NS).reports
    assert found.calls[0].agent == "planner"
    assert found.refusals[0].key.startswith("session:xxx")
    assert len(found.refusals[0].key) == len("session:") + 256


def test_a_clock_that_is_ahead_is_put_right() -> None:
    """As that of the spans of the process."""
    ahead = NOW_NS + MAX_AHEAD_NS + SECOND
    (record,) = decode_logs(report(3, until_ns=ahead), "json")
    found = report_of(record, NOW_NS)
    assert found is not None
    assert (found.since_ns, found.until_ns) == (NOW_NS - 5 * SECOND, NOW_NS)
    (behind,) = decode_logs(report(3, until_ns=NOW_NS - 900 * SECOND), "json")
    kept = report_of(behind, NOW_NS)
    assert kept is not None
    assert kept.until_ns == NOW_NS - 900 * SECOND


def test_content_beside_it_finds_its_span() -> None:
    """A Collector puts records of many processes together."""
    normaliser = Normaliser(Prices())
    (told,) = decode_logs(report(3, until_ns=NOW_NS), "json")
    batch = normaliser.logs([test_logs.asked(), told, test_logs.record("http.request", "x")], NOW_NS)
    assert [made.calls for made in batch.reports[0].calls] == [3]
    assert normaliser.counters == Counter(logs_other=1)


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
def test_a_workers_receiver_hands_it_on(encoding: Encoding) -> None:
    data = encoded(report(3, until_ns=NOW_NS), encoding)
    assert split_logs(data, encoding, len, 10**6) == ([("", data)], 0)
