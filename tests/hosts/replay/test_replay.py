"""The replay host: what the rules would have done to recordings."""

from __future__ import annotations

import base64
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanfuse_processor.core.session import SessionState
from spanfuse_processor.hosts import recordings
from spanfuse_processor.hosts.replay.report import Report
from spanfuse_processor.hosts.replay.sessions import refused
from spanfuse_processor.hosts.replay.states import States
from spanfuse_schemas import Call, Decision, Policy
from tests.support.agents import llm
from tests.support.recorded import SECOND, START_NS, chat_span, healthy, repeater, request, write_lines
from tests.support.replays import replay_files


def replayed(*paths: Path, **options: Any) -> Report:
    return replay_files(Policy(), paths, **options)


def test_a_repeater_would_have_been_stopped_before_its_fourth_call(tmp_path: Path) -> None:
    report = replayed(write_lines(tmp_path / "r.jsonl", repeater(6)))
    session = report.sessions["s"]
    assert (session.calls, session.blocked_at, session.rule) == (6, 3, "repeat.prompt")


def test_after_the_block_the_session_is_counted_on(tmp_path: Path) -> None:
    session = replayed(write_lines(tmp_path / "r.jsonl", repeater(6))).sessions["s"]
    once = replayed(write_lines(tmp_path / "one.jsonl", repeater(1))).sessions["s"]
    assert session.cost_nano_usd == 6 * once.cost_nano_usd > 0


def test_a_healthy_session_is_let_through_and_has_no_detections(tmp_path: Path) -> None:
    session = replayed(write_lines(tmp_path / "h.jsonl", healthy(8))).sessions["h"]
    assert (session.calls, session.blocked_at, session.rule, session.detections) == (8, None, "", [])


def test_the_report_has_the_documented_shape(tmp_path: Path) -> None:
    report = replayed(write_lines(tmp_path / "r.jsonl", repeater(6))).to_dict()
    first = ["coverage", "undecodable", "totals", "rules", "modes", "by_rule"]
    assert list(report) == [*first, "sessions", "scopes", "agents", "models", "budgets"]
    session = {"session", "agent", "first_ns", "last_ns", "calls", "blocked_at", "rule", "cost_nano_usd"}
    saved = {"saved_calls", "saved_nano_usd", "time_to_detection_s", "calls_to_detection", "detections"}
    assert set(report["sessions"][0]) == session | saved
    detection = report["sessions"][0]["detections"][0]
    assert set(detection) == {"rule", "action", "mode", "call", "at_ns", "conditional", "message", "evidence"}
    assert report["rules"]["repeat.prompt"] >= 1


def test_coverage_says_how_much_the_rules_can_see(tmp_path: Path) -> None:
    bare = chat_span(1, [("user", "hello")], session="bare", tokens=(0, 0), model="no-such-model")
    kept = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model")
    bare["attributes"] = [a for a in bare["attributes"] if a["key"] in kept]
    coverage = replayed(write_lines(tmp_path / "r.jsonl", [*repeater(2), request(bare)])).coverage
    assert (coverage["requests"], coverage["spans"], coverage["calls"], coverage["llm_calls"]) == (3, 3, 3, 3)
    assert coverage["with_session"] == coverage["with_usage"] == coverage["with_price"] == coverage["with_content"] == 2


def test_a_span_delivered_twice_counts_once(tmp_path: Path) -> None:
    report = replayed(write_lines(tmp_path / "r.jsonl", [*repeater(2), *repeater(2)]))
    assert (report.sessions["s"].calls, report.coverage["duplicates"]) == (2, 2)


def test_bad_lines_are_counted_and_told_and_survived(tmp_path: Path) -> None:
    first, *rest = repeater(4)
    path = write_lines(tmp_path / "r.jsonl", ["garbage", first, "", '{"resourceSpans": 7}', *rest])
    report = replayed(path)
    assert (report.undecodable, report.sessions["s"].calls) == (2, 4)
    assert [p.partition(": ")[0] for p in report.problems] == ["r.jsonl:1", "r.jsonl:4"]


def test_a_line_that_is_too_long_is_skipped_without_being_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "MAX_REQUEST_BYTES", 5000)
    report = replayed(write_lines(tmp_path / "r.jsonl", ["x" * 20_000, *repeater(3)]))
    assert (report.undecodable, report.sessions["s"].calls) == (1, 3)


def test_a_compressed_file_that_ends_early_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    long = request(chat_span(9, [("user", os.urandom(200_000).hex())]))
    path = write_lines(tmp_path / "r.jsonl.gz", [long, *repeater(3)])
    path.write_bytes(path.read_bytes()[:-100])
    report = replayed(path, write_lines(tmp_path / "h.jsonl", healthy(3)))
    assert (report.undecodable, report.files, report.sessions["h"].calls) == (1, 1, 3)


def test_every_form_gives_the_same_report(tmp_path: Path) -> None:
    """JSON lines, gzipped lines, a printed document, a compact document, and protobuf."""
    whole = request(*(r["resourceSpans"][0]["scopeSpans"][0]["spans"][0] for r in repeater(5)))
    message = ExportTraceServiceRequest()
    binary = json.loads(json.dumps(whole))
    for span in binary["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for field in ("traceId", "spanId"):  # protobuf's JSON has bytes in base64, OTLP's in hex
            span[field] = base64.b64encode(bytes.fromhex(span[field])).decode()
    ParseDict(binary, message)
    (tmp_path / "a.json").write_text(json.dumps(whole, indent=2))
    (tmp_path / "b.json").write_text(json.dumps(whole))
    (tmp_path / "c.pb").write_bytes(message.SerializeToString())
    files = [write_lines(tmp_path / "d.jsonl", repeater(5)), write_lines(tmp_path / "e.jsonl.gz", repeater(5))]
    files += [tmp_path / name for name in ("a.json", "b.json", "c.pb")]
    reports = [replayed(path).to_dict() for path in files]
    assert all(r["sessions"] == reports[0]["sessions"] for r in reports)
    assert reports[0]["sessions"][0]["blocked_at"] == 3


@pytest.mark.parametrize("name", ["pipe", "pipe.json"])
def test_a_named_pipe_is_read_once_as_json_lines(tmp_path: Path, name: str) -> None:
    data = write_lines(tmp_path / "r.jsonl", repeater(6)).read_bytes()
    os.mkfifo(tmp_path / name)
    writer = threading.Thread(target=(tmp_path / name).write_bytes, args=(data,), daemon=True)
    writer.start()
    assert replayed(tmp_path / name).sessions["s"].blocked_at == 3
    writer.join(10)


def test_a_directory_stands_for_its_recordings_by_name(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    write_lines(tmp_path / "below" / "2.jsonl", repeater(6)[3:])
    write_lines(tmp_path / "1.jsonl.gz", repeater(3))
    (tmp_path / "labels.txt").write_text("not a recording")
    report = replayed(tmp_path)
    assert (report.sessions["s"].blocked_at, report.undecodable, report.files) == (3, 0, 2)


def test_calls_of_one_request_are_taken_in_the_order_of_their_ends(tmp_path: Path) -> None:
    spans = [chat_span(n, [("user", "same")]) for n in range(5)]
    shuffled = [spans[i] for i in (3, 0, 4, 2, 1)]
    report = replayed(write_lines(tmp_path / "r.jsonl", [request(*shuffled)]))
    assert report.sessions["s"].blocked_at == 3


def test_a_replay_is_deterministic_and_isolated(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "r.jsonl", [*repeater(6), *healthy(4)])
    assert replayed(path).to_dict() == replayed(path).to_dict()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.jsonl"]


def test_a_session_that_was_idle_for_too_long_starts_afresh_and_its_calls_are_counted_on(tmp_path: Path) -> None:
    asked, day = [("user", "same")], 24 * 3600
    times = [0, 1, 2, day + 3, day + 4, day + 5, day + 6]
    spans = [chat_span(n, asked, at=at) for n, at in enumerate(times)]
    session = replayed(write_lines(tmp_path / "r.jsonl", [request(span) for span in spans])).sessions["s"]
    assert (session.calls, session.blocked_at) == (7, 6)
    assert [d.call for d in session.detections if d.rule == "repeat.prompt"][:1] == [2]
    assert session.detections[-1].call >= 5


def test_sessions_beyond_those_held_in_memory_go_on_where_they_were(tmp_path: Path) -> None:
    mixed = [r for trio in zip(repeater(6), repeater(6, "t"), healthy(6), strict=True) for r in trio]
    path = write_lines(tmp_path / "r.jsonl", mixed)
    assert replayed(path, live_sessions=1).to_dict() == replayed(path).to_dict()


def test_a_spilled_state_comes_back_as_it_was() -> None:
    states = States(SessionState, live=2)
    states.get("a").calls = 7
    for other in ("b", "c", "d"):
        states.get(other)
    states.trim()
    assert isinstance(states.get("a"), SessionState)
    assert states.get("a").calls == 7
    states.close()


def block(**fields: Any) -> Decision:
    known = {"key": "session:s", "state": "open", "action": "block", "rule": "limits", "issued_at_ns": START_NS}
    return Decision(**{**known, **fields})


def call_at(seconds: float) -> Call:
    return llm([{"role": "user", "content": "hello"}]).model_copy(
        update={"start_ns": START_NS + round(seconds * SECOND), "end_ns": START_NS + round((seconds + 1) * SECOND)}
    )


def test_a_call_that_had_started_before_the_decision_is_not_refused() -> None:
    assert not refused(block(), call_at(-0.5))
    assert refused(block(), call_at(0))


def test_a_call_after_the_expiry_is_the_probe() -> None:
    decision = block(expires_at_ns=START_NS + 10 * SECOND)
    assert refused(decision, call_at(9.9))
    assert not refused(decision, call_at(10))


def test_a_nudge_refuses_nothing() -> None:
    assert not refused(block(action="nudge"), call_at(1))


def _traces() -> Path | None:
    """Recorded traces beside the checkout, or where the environment says."""
    found = Path(os.environ.get("SPANFUSE_TRACES", Path(__file__).parents[4] / "shared" / "traces"))
    return found if found.is_dir() else None


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["labelled-dev", "successful-dev", "drift-dev"])
def test_recorded_traces_replay_without_an_undecodable_line(name: str) -> None:
    traces = _traces()
    if traces is None:
        pytest.skip("no recorded traces here")
    report = replayed(traces / f"{name}.otlp.jsonl.gz")
    assert report.undecodable == 0
    assert report.coverage["llm_calls"] == report.coverage["spans"] > 1000
