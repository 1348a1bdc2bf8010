"""Reports of Guards in the embedded host: compared with what was seen, shown, and told of."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spanfuse_schemas import Policy
from tests.hosts.test_engine import Host
from tests.support.recorded import START_NS, chat_span, request
from tests.support.replays import replay_files
from tests.support.reports import report
from tests.support.shown import detections

SECOND = 10**9


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path / "spanfuse.db")
    yield made
    made.store.close()


def tell(host: Host, data: bytes, at: float = 10) -> None:
    asyncio.run(host.engine.ingest(data, "json", START_NS + round(at * SECOND), "logs"))


def calls(host: Host, number: int, *, first: int = 0) -> None:
    for i in range(first, first + number):
        host.send(request(chat_span(i, [("user", f"question {i}")])), at_ns=START_NS + 20 * SECOND)


def found(host: Host) -> list[dict[str, Any]]:
    return [json.loads(d.to_json()) for d in detections(host.store) if d.rule == "coverage"]


def last_ns(host: Host) -> int:
    state = host.engine.work.scopes.known("global:*")
    return state.last_ns if state is not None else START_NS


def test_a_client_that_admits_ten_calls_of_which_one_is_seen_is_told_of(host: Host) -> None:
    """R090: for its agent and for all, once spans had their time, though nothing comes any more."""
    calls(host, 1)
    at_ns = last_ns(host) + SECOND
    tell(host, report(10, until_ns=at_ns))
    host.engine.upkeep.tick(at_ns + 30 * SECOND)
    assert not found(host)
    host.engine.upkeep.tick(at_ns + 100 * SECOND)
    assert {d["scope"] for d in found(host)} == {"agent:recorded", "global:*"}
    assert {d["evidence"]["value"] for d in found(host)} == {10.0}
    assert host.counts()["detections"]["coverage"] == 2
    shown = host.engine.views.guards(at_ns + 100 * SECOND)
    assert shown == {"guarded": 10, "seen": 1, "share": 0.1, "reporting": {"ready": 1}, "refused": []}
    (row,) = [row for row in asyncio.run(host.engine.views.agents()) if row["agent"] == "recorded"]
    assert row["coverage"] == {"guarded": 10, "seen": 1, "share": 0.1}
    for more in (200, 300):
        host.engine.upkeep.tick(at_ns + more * SECOND)
    assert len(found(host)) == 2
    assert not host.engine.work.due


def test_calls_that_are_seen_are_covered(host: Host) -> None:
    calls(host, 12)
    at_ns = last_ns(host) + SECOND
    tell(host, report(12, until_ns=at_ns))
    host.engine.upkeep.tick(at_ns + 100 * SECOND)
    assert not found(host)
    assert host.engine.views.guards(at_ns + 100 * SECOND)["share"] == 1.0


def test_a_report_that_is_sent_again_counts_once(host: Host) -> None:
    data = report(
        10, until_ns=START_NS, refusals=[{"key": "session:a", "rule": "cycle", "blocked": 4, "would_block": 0}]
    )
    tell(host, data)
    tell(host, data)
    assert host.counts()["guards"] == {"reports": 1, "reports_again": 1, "calls": 10, "blocked": 4}


def test_attempts_at_what_is_blocked_are_shown_by_key(host: Host) -> None:
    for number in (900, 100):
        tell(
            host,
            report(
                until_ns=START_NS,
                refusals=[
                    {"key": "session:a", "rule": "cycle", "blocked": number, "would_block": 0},
                    {"key": "agent:b", "rule": "agent.breaker", "blocked": 0, "would_block": 1},
                ],
                spans_dropped=3,
            ),
        )
    assert host.engine.views.guards(START_NS)["refused"] == [
        {"key": "session:a", "rule": "cycle", "blocked": 1_000, "would_block": 0},
        {"key": "agent:b", "rule": "agent.breaker", "blocked": 0, "would_block": 2},
    ]
    counts = host.counts()["guards"]
    assert (counts["blocked"], counts["would_block"], counts["spans_dropped"]) == (1_000, 2, 6)


def test_a_restart_forgets_nothing_that_was_told(host: Host) -> None:
    calls(host, 1)
    at_ns = last_ns(host) + SECOND
    tell(host, report(10, until_ns=at_ns, source="x", seq=1))
    host.restart()
    tell(host, report(10, until_ns=at_ns, source="x", seq=1))
    tell(host, report(1, until_ns=at_ns, source="x", seq=2))
    host.restart()
    host.engine.upkeep.tick(at_ns + 100 * SECOND)
    assert {d["evidence"]["count"] for d in found(host)} == {11}


def test_bare_checks_count_for_all_together(host: Host) -> None:
    tell(host, report(until_ns=START_NS, checks=20))
    host.engine.upkeep.tick(START_NS + 100 * SECOND)
    assert [d["scope"] for d in found(host)] == ["global:*"]


def test_a_host_without_reports_says_so(host: Host) -> None:
    calls(host, 3)
    assert host.engine.views.guards(last_ns(host) + 200 * SECOND)["share"] is None
    assert not found(host)


def test_guards_that_know_nothing_new_are_told_apart(host: Host) -> None:
    """As long as they report: one that is silent may be over."""
    for source, state in (("a", "ready"), ("b", "ready"), ("c", "stale"), ("c", "ready"), ("d", "stale")):
        tell(host, report(1, until_ns=START_NS, source=source, state=state))
    shown = host.engine.views.guards(START_NS + 60 * SECOND)
    assert shown["reporting"] == {"ready": 3, "stale": 1}
    assert host.engine.views.guards(START_NS + 3600 * SECOND)["reporting"] == {}


def test_a_replay_compares_what_was_recorded_of_both(tmp_path: Path) -> None:
    """By the clock of the recording: nothing is said of its last minute."""
    spans = [chat_span(i, [("user", f"question {i}")], at=at) for i, at in enumerate((1, 200, 400))]
    (tmp_path / "r.json").write_bytes(
        report(10, until_ns=START_NS + 5 * SECOND) + b"\n" + b"\n".join(json.dumps(request(s)).encode() for s in spans)
    )
    found = replay_files(Policy(), [tmp_path / "r.json"]).scopes
    assert {(scope.scope, scope.rule) for scope in found} == {("agent:recorded", "coverage"), ("global:*", "coverage")}
