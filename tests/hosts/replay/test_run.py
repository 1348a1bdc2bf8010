"""A replay comes to the same however it is worked off: lanes, processes, policies together, states that were spilled."""

from __future__ import annotations

import base64
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench.core import calls
from spanfuse_processor.config import Config
from spanfuse_processor.errors import SpanfuseError
from spanfuse_processor.hosts.replay import Files, Spool, calls_of, replay_calls
from spanfuse_processor.hosts.replay.packed import lane_of
from spanfuse_processor.hosts.replay.processes import Crew, Job
from spanfuse_processor.hosts.replay.readers import Readers
from spanfuse_processor.hosts.replay.shards import pieces
from spanfuse_processor.hosts.replay.sources import Item, untold
from spanfuse_processor.hosts.replay.spool import Read
from spanfuse_schemas import CallBatch, Policy
from tests.support.late import late_run
from tests.support.recorded import attribute, chat_span, healthy, repeater, request, write_lines

POLICIES = [
    Policy(),
    Policy.model_validate({"rules": {"agent.breaker": {"mode": "block", "sessions": 2}}}),
    Policy.model_validate(
        {
            "budgets": [
                {"name": "user/steps", "scope": "user", "limit_steps": 9},
                {"name": "session/steps", "scope": "session", "limit_steps": 5, "mode": "warn"},
                {"name": "global/usd", "scope": "global", "limit_usd": 0.0005, "period": "daily"},
            ],
            "rules": {"adaptive": {"mode": "warn", "sessions": 5, "floor_calls": 1}},
        }
    ),
]


def traffic() -> list[Any]:
    """Loops and agents at work, in many sessions at a time, and traces whose sessions come to be known late."""
    found: list[Any] = []
    for n in range(8):
        found += [*repeater(6, f"loop-{n}"), *healthy(6, f"work-{n}")]
    long = [chat_span(n, [("user", f"Part {n}")], session="long") for n in range(30)]
    shared = []
    for at in (0, 10, 20):
        asking = [chat_span(at, [("user", "?")], session=f"m{k}") for k in range(9)]
        shared.append(request(*long[at : at + 10], *asking))
    for exported in shared:
        for span in exported["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            span["attributes"].append(attribute("user.id", f"user-{len(span['spanId']) % 3}"))
    return [*found, *shared, *(json.loads(line) for n in range(12) for line in late_run(n))]


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with calls_of(Files((write_lines(tmp_path / "r.jsonl", traffic()),))) as found:
        yield found


def reports(spool: Spool, **options: Any) -> list[str]:
    return [json.dumps(report.to_dict()) for report in replay_calls(spool, POLICIES, **options)]


def test_any_number_of_processes_comes_to_the_same_report(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where sessions have to be joined that were in different lanes, and scopes stop sessions of all lanes."""
    alone = reports(spool)
    assert reports(spool) == alone
    monkeypatch.setattr("spanfuse_processor.hosts.replay.run.ENOUGH", 0)
    for processes in (2, 3):
        assert reports(spool, processes=processes) == alone
    assert [json.loads(report)["coverage"]["moved"] for report in alone] == [12, 12, 12]
    rules = [{s["rule"] for s in json.loads(report)["sessions"] if s["blocked_at"] is not None} for report in alone]
    assert "agent.breaker" in rules[1]
    assert "budget.user/steps" in rules[2] or "budget.global/usd" in rules[2]


def test_any_number_of_processes_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of one trace and of many, as JSON and as protobuf, packed calls among them, and what cannot be read."""
    monkeypatch.setattr("spanfuse_processor.hosts.replay.sources._LARGE", 0)
    exported = traffic()
    binary = ParseDict(as_protobuf_json(exported[-1]), ExportTraceServiceRequest()).SerializeToString()
    (tmp_path / "c.pb").write_bytes(binary)
    (tmp_path / "d.calls.jsonl").write_bytes(CallBatch(calls=tuple(calls(9))).to_json())
    files = [
        write_lines(tmp_path / "a.jsonl", [*exported[:60], "garbage"]),
        write_lines(tmp_path / "b.jsonl", exported[60:]),
    ]
    source = Files((tmp_path / "d.calls.jsonl", *files, tmp_path / "c.pb", tmp_path / "d.calls.jsonl"))
    found = []
    for processes in (1, 2, 3):
        with calls_of(source, processes=processes) as spool:
            found.append((reports(spool), [lane.read_bytes() for lane in spool.lanes], spool.read))
    assert found[1:] == [found[0]] * 2
    assert found[0][2].problems[0].startswith("a.jsonl:61: ")
    assert (found[0][2].requests, found[0][2].undecodable) == (len(exported) + 3, 1)


def as_protobuf_json(request: dict[str, Any]) -> dict[str, Any]:
    """Protobuf's JSON has bytes in base64, OTLP's in hex."""
    found: dict[str, Any] = json.loads(json.dumps(request))
    for span in found["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for field in ("traceId", "spanId", "parentSpanId"):
            if field in span:
                span[field] = base64.b64encode(bytes.fromhex(span[field])).decode()
    return found


def test_of_many_that_cannot_be_read_all_are_counted_and_some_are_told(tmp_path: Path) -> None:
    with calls_of(Files((write_lines(tmp_path / "r.jsonl", ["garbage"] * 50),))) as spool:
        assert (spool.read.undecodable, spool.read.requests, len(spool.read.problems)) == (50, 0, 20)


def test_a_reader_that_is_killed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spanfuse_processor.hosts.replay.readers._AT_ONCE", 1)
    source = Files((write_lines(tmp_path / "r.jsonl", traffic()),))
    items = list(source.items(Read(), untold))
    with Readers(tmp_path, [Config()], 2) as readers:
        for child in multiprocessing.active_children():
            os.kill(child.pid or 0, signal.SIGKILL)
        with pytest.raises(SpanfuseError, match="signal 9"):
            _hand_on(readers, items)


def _hand_on(readers: Readers, items: list[Item]) -> None:
    for number, item in enumerate(items):
        for piece in pieces(number, item):
            readers.take(piece)
    readers.end()


def test_policies_replayed_together_do_not_know_of_one_another(spool: Spool) -> None:
    together = reports(spool)
    for policy, report in zip(POLICIES, together, strict=True):
        assert json.dumps(replay_calls(spool, [policy])[0].to_dict()) == report


def test_states_that_wait_in_a_file_change_nothing(spool: Spool) -> None:
    assert reports(spool, live_sessions=3) == reports(spool)


def test_a_trace_is_brought_to_the_lane_of_its_session(spool: Spool) -> None:
    """A call that was counted under its trace alone, and the session which that belongs to, meet in one process."""
    found = replay_calls(spool, [Policy()])[0].sessions
    late = [session for name, session in found.items() if name.startswith("late-")]
    assert [session.calls for session in late] == [8] * 6
    assert not any(name.startswith("trace:") for name in found)
    assert len({lane_of(session.session) for session in late}) > 1


def test_a_broken_batch_is_counted_and_the_others_are_replayed(tmp_path: Path) -> None:
    good = tmp_path / "good.jsonl"
    batches = [CallBatch(calls=(call,)).to_json() for call in calls(2)]
    good.write_bytes(b"\n".join([b'{"calls":[{"trace_id":"ab","session":"s0"}]}', *batches]))
    with calls_of(Files((good,))) as spool:
        report = replay_calls(spool, [Policy()])[0]
    assert (report.undecodable, report.sessions["s0"].calls) == (1, 2)
    assert report.problems == ["batch 0: no batch of calls: calls.0.span_id: Field required"]


def test_nothing_is_left_of_a_spool(spool: Spool) -> None:
    replay_calls(spool, POLICIES)
    assert spool.folder.exists()
    assert {path.name for path in spool.folder.iterdir()} == {f"lane-{n:02}" for n in range(16)}
    spool.close()
    assert not spool.folder.exists()


def dies(told: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fails(told: Any) -> None:
    raise ValueError("no good")


def waits(told: Any) -> None:
    threading.Event().wait(60)


def test_a_process_that_is_killed_is_an_error_and_no_hang() -> None:
    with pytest.raises(SpanfuseError, match="signal 9"), Crew(2) as crew:
        list(crew.do([Job(waits, ()), Job(dies, ())], lambda done: None))


def test_what_a_job_raises_is_raised_here_and_the_others_end() -> None:
    before = time.monotonic()
    with pytest.raises(ValueError, match="no good"), Crew(2) as crew:
        list(crew.do([Job(waits, ()), Job(fails, ())], lambda done: None))
    assert time.monotonic() - before < 30


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_who_is_interrupted_ends_its_processes_and_leaves_no_files(tmp_path: Path, stop: signal.Signals) -> None:
    """Ctrl-C in a terminal goes to all of them."""
    path = write_lines(tmp_path / "r.jsonl.gz", [r for n in range(900) for r in repeater(8, f"{n:05}")])
    temporary = tmp_path / ("tmp" * 40)  # longer than the path of a socket may be
    temporary.mkdir()
    command = [sys.executable, "-m", "spanfuse_processor", "replay", str(path), "--processes", "2"]
    child = subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(temporary)}, stderr=subprocess.PIPE, start_new_session=True
    )
    end = time.monotonic() + 60
    while not list(temporary.glob("spanfuse-replay-*/*.charges-0")):
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < end
        threading.Event().wait(0.01)
    if stop is signal.SIGINT:
        os.killpg(child.pid, stop)
    else:
        child.send_signal(stop)
    _, told = child.communicate(timeout=30)
    assert child.returncode == 128 + stop
    assert b"Traceback" not in told
    assert not list(temporary.glob("spanfuse-*"))
