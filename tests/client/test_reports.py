"""A Guard reports what it lets through and refuses: small records, each once, whatever becomes of the receiver."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from spanfuse import Blocked, Guard
from spanfuse.counters import MAX_KEYS, SPANS_DROPPED
from spanfuse.emission import destination
from spanfuse.emission.reports import MAX_NAMES, Reporter
from spanfuse.testing import MemorySubscriber, block
from tests.client.log_receiver import LogReceiver
from tests.client.test_otel import agent
from tests.client.waiting import own_threads, wait_until

INTERVAL_S = 0.02


@pytest.fixture
def receiver() -> Iterator[LogReceiver]:
    running = LogReceiver()
    yield running
    running.close()


def reporting(to: str | None, *decisions: Any, interval_s: float = INTERVAL_S) -> tuple[Guard, Reporter]:
    """A Guard that reports, begun."""
    guard = Guard(MemorySubscriber(*decisions), mode="enforce", report_to=to)
    reporter = guard._reporter
    reporter._interval_s = interval_s
    guard.start()
    return guard, reporter


def call(guard: Guard, number: int = 1, **names: Any) -> None:
    for _ in range(number):
        with guard.call(**names):
            pass


def admitted(receiver: LogReceiver) -> int:
    return sum(made.calls for report in receiver.taken for made in report.calls)


def test_calls_are_reported_by_agent_and_team_once_they_have_ended(receiver: LogReceiver) -> None:
    guard, reporter = reporting(receiver.url, interval_s=60)
    call(guard, 3, agent="planner", team="shop")
    call(guard, 2, agent="coder")
    with guard.call(agent="coder"):
        assert reporter.flush(5)
    (first,) = receiver.taken
    assert {(made.agent, made.team): made.calls for made in first.calls} == {("planner", "shop"): 3, ("coder", ""): 2}
    assert reporter.flush(5)
    second = receiver.taken[1]
    assert [(made.agent, made.calls) for made in second.calls] == [("coder", 1)]
    assert (first.seq, second.seq, first.source) == (1, 2, second.source)
    assert first.until_ns == second.since_ns <= second.until_ns <= time.time_ns()
    assert receiver.requests[0]["path"] == "/v1/logs"
    reporter.close()


def test_a_hundred_thousand_attempts_are_one_record(receiver: LogReceiver) -> None:
    guard, reporter = reporting(receiver.url, block("session:s"), interval_s=60)
    for _ in range(100_000):
        with suppress(Blocked):
            guard.check(session="s")
    assert reporter.flush(5)
    (report,) = receiver.taken
    (refused,) = report.refusals
    assert (refused.key, refused.rule, refused.blocked) == ("session:s", "repeat.no_progress", 100_000)
    assert report.checks == 0
    assert receiver.bytes < 2_500
    reporter.close()


def test_what_would_be_blocked_is_told_apart(receiver: LogReceiver) -> None:
    guard, reporter = reporting(receiver.url, block("agent:a", mode="observe"), interval_s=60)
    guard._judge._mode = None  # as decisions say
    guard.check(agent="a")
    assert reporter.flush(5)
    (refused,) = receiver.taken[0].refusals
    assert (refused.key, refused.blocked, refused.would_block) == ("agent:a", 0, 1)
    reporter.close()


def test_bare_checks_are_told_as_long_as_no_call_is_named(receiver: LogReceiver) -> None:
    guard, reporter = reporting(receiver.url, interval_s=60)
    for _ in range(7):
        guard.check()
    assert reporter.flush(5)
    assert receiver.taken[0].checks == 7
    guard.check()
    call(guard)
    assert reporter.flush(5)
    assert (receiver.taken[1].checks, admitted(receiver)) == (0, 1)
    reporter.close()


def test_a_call_inside_a_call_is_one(receiver: LogReceiver) -> None:
    guard, reporter = reporting(receiver.url, interval_s=60)
    with guard.call(agent="a"), guard.call(agent="a"):
        pass
    assert reporter.flush(5)
    assert admitted(receiver) == 1
    reporter.close()


def test_who_does_nothing_says_nothing(receiver: LogReceiver) -> None:
    guard, reporter = reporting(receiver.url)
    wait_until(lambda: receiver.taken)  # its state
    number = len(receiver.taken)
    call(guard)
    wait_until(lambda: admitted(receiver) == 1)
    assert len(receiver.taken) == number + 1
    assert {report.state for report in receiver.taken} == {"ready"}
    reporter.close()


def test_dropped_spans_are_told_once_though_several_guards_report(receiver: LogReceiver) -> None:
    guards, reporters = zip(*[reporting(receiver.url, interval_s=60) for _ in range(3)], strict=True)
    for reporter in reporters:
        reporter.flush(5)
    before = sum(report.spans_dropped for report in receiver.taken)
    SPANS_DROPPED.add(41)
    for reporter in reporters:
        reporter.flush(5)
    assert sum(report.spans_dropped for report in receiver.taken) - before == 41
    for guard in guards:
        guard.close()


@pytest.mark.parametrize("status", [500, 503, 429])
def test_nothing_is_lost_while_the_receiver_is_away(receiver: LogReceiver, status: int) -> None:
    """The report that was not taken is sent again as it was; what happens meanwhile waits in the counters."""
    guard, reporter = reporting(receiver.url, interval_s=60)
    receiver.status = status
    call(guard, 3, agent="a")
    assert not reporter.flush(5)
    call(guard, 4, agent="a")
    assert not reporter.flush(5)
    assert receiver.came[0] == receiver.came[1]
    receiver.status = 200
    assert reporter.flush(5)
    assert [report.seq for report in receiver.taken] == [1, 2]
    assert admitted(receiver) == 7
    reporter.close()


def test_a_receiver_that_comes_late_gets_all() -> None:
    spare = LogReceiver()
    port = spare.server.server_address[1]
    spare.close()
    guard, reporter = reporting(spare.url)
    call(guard, 5, agent="a")
    wait_until(lambda: reporter.trouble == "away")
    late = LogReceiver(port)
    try:
        wait_until(lambda: admitted(late) == 5, 20)
        wait_until(lambda: reporter.trouble == "")
    finally:
        reporter.close()
        late.close()


def test_a_receiver_that_takes_no_logs_is_told_of_once_and_hurts_nobody(
    receiver: LogReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.status = 404
    with caplog.at_level(logging.INFO, "spanfuse"):
        guard, reporter = reporting(receiver.url)
        for _ in range(3):
            call(guard, 100)
            reporter.flush(1)
    assert len(caplog.records) == 1
    assert reporter.trouble == "refused"
    assert guard.counters.errors == 0
    reporter.close()


def test_a_receiver_that_hangs_holds_nobody_up(receiver: LogReceiver) -> None:
    receiver.hang.clear()
    guard, reporter = reporting(receiver.url)
    call(guard, 1)
    wait_until(lambda: reporter._sending.locked())
    begin = time.perf_counter()
    call(guard, 1_000, agent="a")
    assert time.perf_counter() - begin < 1
    begin = time.perf_counter()
    assert not reporter.flush(0.1)
    assert time.perf_counter() - begin < 1
    receiver.hang.set()
    reporter.close()


def test_agents_beyond_a_hundred_count_for_all_together(receiver: LogReceiver) -> None:
    guard, reporter = reporting(receiver.url, interval_s=60)
    for i in range(MAX_NAMES + 50):
        call(guard, agent=f"a{i}")
    assert reporter.flush(5)
    (report,) = receiver.taken
    assert len(report.calls) == MAX_NAMES + 1
    assert {made.agent: made.calls for made in report.calls}[""] == 50
    reporter.close()


def test_keys_beyond_a_hundred_are_told_together(receiver: LogReceiver) -> None:
    keys = [f"s{i}" for i in range(MAX_KEYS + 50)]
    guard, reporter = reporting(receiver.url, *(block(f"session:{key}") for key in keys), interval_s=60)
    for key in keys:
        with suppress(Blocked):
            guard.check(session=key)
    assert reporter.flush(5)
    refused = {one.key: one.blocked for one in receiver.taken[0].refusals}
    assert len(refused) == MAX_KEYS + 1
    assert refused["*"] == 50
    reporter.close()


def test_a_thousand_guards_leave_no_thread(receiver: LogReceiver) -> None:
    before = threading.active_count()
    for _ in range(1_000):
        guard, reporter = reporting(receiver.url, interval_s=60)
        reporter.close()
        guard.close()
    wait_until(lambda: threading.active_count() <= before)


def test_a_guard_that_is_closed_has_told_all(receiver: LogReceiver) -> None:
    others = own_threads()
    guard, reporter = reporting(receiver.url, interval_s=60)
    call(guard, 2)
    reporter.close()
    assert admitted(receiver) == 2
    assert own_threads() <= others


@pytest.mark.parametrize("asked", [None, "off"])
def test_without_anywhere_to_report_to_nothing_runs(asked: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(destination, "_spans", None)
    guard, reporter = reporting(asked)
    call(guard, 3)
    assert reporter._thread is None
    assert reporter.flush()
    assert guard.counters.errors == 0


def test_an_address_that_is_none_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    guard, reporter = reporting("ftp://nowhere")
    call(guard, 3)
    assert [record.getMessage() for record in caplog.records] == ["nothing is reported to spanfuse"]
    assert reporter._thread is None


PLACES: list[tuple[str | None, dict[str, str], str | None]] = [
    (None, {}, None),
    ("off", {"SPANFUSE_REPORT_URL": "http://r:1"}, None),
    (None, {"SPANFUSE_REPORT_URL": "off", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, None),
    ("http://r:4318", {}, "http://r:4318/v1/logs"),
    ("http://r:4318/v1/logs", {}, "http://r:4318/v1/logs"),
    ("kafka://b:9092", {}, "kafka://b:9092"),
    (None, {"SPANFUSE_REPORT_URL": "http://r:1/"}, "http://r:1/v1/logs"),
    (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/"}, "http://c:4318/v1/logs"),
    (None, {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://l/x", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, "http://l/x"),
    (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, None),
]


@pytest.mark.parametrize(("asked", "environment", "found"), PLACES, ids=range(len(PLACES)))
def test_reports_go_where_it_is_said(
    asked: str | None, environment: dict[str, str], found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(destination, "_spans", None)
    for name in [name for name in os.environ if name.startswith("OTEL_EXPORTER_OTLP")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    where = destination.where(asked)
    assert (where.url if where is not None else None) == found


def test_reports_go_the_way_of_the_spans(receiver: LogReceiver) -> None:
    """Also where the spans' way is known only after the first call; with their headers."""
    run = agent(
        f"""
        from spanfuse import Guard, instrument
        from spanfuse.testing import MemorySubscriber
        guard = Guard(MemorySubscriber())
        with guard.call(agent="before"):
            pass
        instrument("{receiver.url}/v1/traces", headers={{"x-key": "1"}})
        with guard.call(agent="after"):
            pass
        """,
        60,
        **{"OTEL_EXPORTER_OTLP_ENDPOINT": "", "SPANFUSE_REPORT_URL": ""},
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert {made.agent for report in receiver.taken for made in report.calls} == {"before", "after"}
    logs = [request for request in receiver.requests if request["path"] == "/v1/logs"]
    assert logs
    assert all(request["x-key"] == "1" for request in logs)


def test_the_headers_of_the_environment_are_sent_along(monkeypatch: pytest.MonkeyPatch, receiver: LogReceiver) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x, tenant=a")
    guard, reporter = reporting(receiver.url)
    call(guard)
    wait_until(lambda: receiver.taken)
    assert receiver.requests[0]["authorization"] == "Bearer x"
    assert receiver.requests[0]["tenant"] == "a"
    reporter.close()


def test_the_last_report_leaves_when_the_process_exits(receiver: LogReceiver) -> None:
    run = agent(f"""
        from spanfuse import Guard
        from spanfuse.testing import MemorySubscriber
        guard = Guard(MemorySubscriber(), report_to={receiver.url!r})
        for _ in range(10):
            with guard.call(agent="a"):
                pass
    """)
    assert (run.returncode, run.stderr) == (0, "")
    assert admitted(receiver) == 10


def test_an_exit_waits_two_seconds_at_most(receiver: LogReceiver) -> None:
    receiver.hang.clear()
    begin = time.monotonic()
    run = agent(f"""
        import time
        from spanfuse import Guard
        from spanfuse.testing import MemorySubscriber
        guard = Guard(MemorySubscriber(), report_to={receiver.url!r})
        with guard.call():
            pass
        print(time.monotonic())
    """)
    assert time.monotonic() - float(run.stdout) < 4
    assert begin < float(run.stdout)


def test_a_forked_child_reports_its_own_under_a_source_of_its_own(receiver: LogReceiver) -> None:
    run = agent(f"""
        import os
        from spanfuse import Guard
        from spanfuse.testing import MemorySubscriber
        guard = Guard(MemorySubscriber(), report_to={receiver.url!r})

        def calls(number):
            for _ in range(number):
                with guard.call(agent="a"):
                    pass

        calls(5)
        children = []
        for i in range(3):
            if not (child := os.fork()):
                calls(1)
                os._exit(0 if guard.flush(5) else 1)
            children.append(child)
        print([os.waitpid(child, 0)[1] for child in children])
    """)
    assert run.stdout == "[0, 0, 0]\n", run.stderr
    assert admitted(receiver) == 8
    by_source = {report.source: sum(made.calls for made in report.calls) for report in receiver.taken if report.calls}
    assert sorted(by_source.values()) == [1, 1, 1, 5]


def test_a_guard_that_is_switched_off_reports_nothing(receiver: LogReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPANFUSE_DISABLED", "1")
    guard, reporter = reporting(receiver.url)
    call(guard, 3)
    assert reporter._thread is None
    assert reporter.flush()
    assert receiver.came == []
