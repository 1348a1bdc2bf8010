"""Recordings whose content stands in logs are replayed with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from spanfuse_schemas import Policy
from tests.otlp import fixtures
from tests.otlp.fixtures import chat
from tests.otlp.test_logs import asked, json_bytes, protobuf_bytes, replied
from tests.support.replays import replay_files


def ingested(*paths: Path) -> dict[str, Any]:
    report = replay_files(Policy(), paths)
    return {**report.ingest, **{key: n for key, n in report.coverage.items() if n}, "failed": report.undecodable}


@pytest.mark.parametrize("logs_first", [True, False])
def test_one_file_may_hold_spans_logs_and_metrics(tmp_path: Path, logs_first: bool) -> None:
    lines = [fixtures.json_bytes(chat()), json_bytes(asked(), replied())]
    file = tmp_path / "all.jsonl"
    file.write_bytes(b"\n".join([*(reversed(lines) if logs_first else lines), b'{"resourceMetrics": []}']))
    found = ingested(file)
    assert (found["logs_joined"], found["calls"], found["requests"], found["failed"]) == (2, 1, 3, 0)


def test_at_the_end_what_came_without_a_reply_is_read_and_what_met_no_span_is_told(tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    file.write_bytes(b"\n".join([fixtures.json_bytes(chat()), json_bytes(asked(), asked(id=2))]))
    found = ingested(file)
    assert (found["logs_joined"], found["logs_unmatched"], found["calls"]) == (1, 1, 1)


@pytest.mark.parametrize("given", ["folder", "file"])
def test_logs_that_stand_beside_spans_are_read_with_them(tmp_path: Path, given: str) -> None:
    traces = tmp_path / "run.traces.bin"
    traces.write_bytes(fixtures.protobuf_bytes(chat()))
    (tmp_path / "run.logs.bin").write_bytes(protobuf_bytes(asked(), replied()))
    metrics = json_format.ParseDict(
        json.loads('{"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "x"}]}]}]}'),
        ExportMetricsServiceRequest(),
    )
    (tmp_path / "run.metrics.bin").write_bytes(metrics.SerializeToString())
    found = ingested(tmp_path if given == "folder" else traces)
    assert (found["logs_joined"], found["calls"], found["with_content"], found["failed"]) == (2, 1, 1, 0)
    assert "invalid" not in found
