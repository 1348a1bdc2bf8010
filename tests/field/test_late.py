"""Spans that arrive long after they ended."""

from __future__ import annotations

from tests.core.test_belated import Host
from tests.otlp.fixtures import chat, says
from tests.support.agents import policy


def test_r092_a_frozen_function_that_delivers_its_spans_at_once_has_not_been_fast() -> None:
    """Twenty calls of an hour come in one request, much later: they count at the time of their ends."""
    host = Host(rules=policy(velocity={"mode": "block"}))
    host.take(
        [
            chat(id=n, at=180.0 * n, lasts=0.5, input=[says(f"Question {n}")], attributes={"session.id": "s"})
            for n in range(1, 21)
        ]
    )
    assert host.states["s"].calls == 20
    assert host.states["s"].last_ns - host.states["s"].first_ns > 3_000 * 10**9
    assert host.detections == []


def test_r093_a_span_that_comes_a_quarter_of_an_hour_late_counts_and_raises_no_second_alarm() -> None:
    host = Host()
    for n in range(1, 4):
        host.take([chat(id=n, at=n, lasts=0.5, input=[says("Are we there yet?")], attributes={"session.id": "s"})])
    told = [d.rule for d in host.detections]
    assert told == ["repeat.prompt"]
    epoch = host.states["s"].epoch
    host.take([chat(id=9, at=900, lasts=0.5, input=[says("Something else.")], attributes={"session.id": "other"})])
    host.take([chat(id=4, at=3.6, lasts=0.1, input=[says("Are we there yet?")], attributes={"session.id": "s"})])
    assert host.states["s"].calls == 4
    assert [d.rule for d in host.detections] == told
    assert host.states["s"].epoch == epoch
