"""Reports of Guards in the stream host: packed by source, counted, and judged by the clock though nothing comes."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

from faust.types import TP

from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_processor.hosts.stream.host import StreamHost
from spanfuse_processor.hosts.stream.ingest import pack
from spanfuse_processor.hosts.stream.table import Stored
from spanfuse_schemas import CallBatch, Detection
from spanfuse_schemas.guard_report import GuardReport
from spanfuse_schemas.topics import CHARGES, DETECTIONS, partition_of
from tests.hosts.test_stream_scopes import Bench
from tests.support.agents import START_NS
from tests.support.charges import charge, told
from tests.support.loops import in_loop


def report_of(source: str) -> GuardReport:
    return GuardReport(source=source, seq=1, since_ns=START_NS, until_ns=START_NS)


def test_the_reports_of_a_guard_go_to_one_partition() -> None:
    reports = tuple(report_of(f"g{i}") for i in range(40))
    packed = list(pack(CallBatch(reports=reports), 4, Counter()))
    assert len(packed) == 4
    found = {report for _, value in packed for report in CallBatch.from_json(value).reports}
    assert found == set(reports)
    for partition, value in packed:
        assert {partition_of(report.source, 4) for report in CallBatch.from_json(value).reports} == {partition}


@in_loop
async def test_what_is_told_is_counted_once_and_missed_by_the_clock() -> None:
    bench = Bench()
    now_s = (time.time_ns() - START_NS) / 1e9
    silent = told(10, at=now_s - 150, source="g", seq=1)
    for offset in (1, 2):
        scopes = ("agent:a", "global:*")
        await bench.take(offset, *(charge(scope, at=now_s - 150, calls=0, told=(silent,)) for scope in scopes))
    assert bench.counters["guards/reports"] == 1
    assert bench.counters["guards/reports_again"] == 1
    await bench.writeback.flush()
    assert DETECTIONS not in bench.outbox.values
    for _ in range(3):
        await bench.expiry.turn()
    found = [Detection.from_json(value or b"") for value in bench.outbox.values[DETECTIONS]]
    assert {(d.rule, d.scope) for d in found} == {("coverage", "agent:a"), ("coverage", "global:*")}
    stored = Stored.unpack(bench.table.fetch(b"agent:a") or b"")
    assert ScopeState.restore(stored.snapshot).coverage.due_ns
    await bench.writeback.flush()
    stored = Stored.unpack(bench.table.fetch(b"agent:a") or b"")
    assert ScopeState.restore(stored.snapshot).coverage.due_ns == 0


@in_loop
async def test_a_worker_counts_coverage_where_it_knows_all_together() -> None:
    bench = Bench()
    partition, now_s = partition_of("global:*", 4), (time.time_ns() - START_NS) / 1e9
    host: Any = SimpleNamespace(
        settings=SimpleNamespace(partitions=4), ready=asyncio.Event(), assigned=lambda: {TP(CHARGES, partition)},
        _scopes=bench.scopes, _stage=bench.stage,
    )  # fmt: skip
    host._lives_here = lambda scope: StreamHost._lives_here(host, scope)
    assert StreamHost._covered(host) is None
    host.ready.set()
    assert StreamHost._covered(host) is None
    state = bench.scopes.load("global:*", partition, 1)
    assert state is not None
    bench.stage.process([charge("global:*", at=now_s - 150, calls=3, told=(told(4, at=now_s - 150),))], lambda _: state)
    assert StreamHost._covered(host) == {"guarded": 4, "seen": 3, "share": 0.75}
