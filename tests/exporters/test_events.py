"""Numbered events, and who goes on where it was."""

from __future__ import annotations

from collections.abc import Iterable

from spanfuse_processor.exporters.events import EventLog
from tests.support.loops import in_loop


def last(told: bytes) -> str:
    return told.decode().rpartition("id: ")[2].splitlines()[0]


def events(told: Iterable[bytes]) -> list[str]:
    text = b"".join(told).decode()
    return [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]


@in_loop
async def test_who_was_away_is_told_what_it_missed_and_then_what_comes() -> None:
    log = EventLog()
    (ready,), listener = log.follow()
    for n in range(3):
        log.publish("decision", b"%d" % n)
    heard = await listener.take(1) or b""
    assert events([heard]) == ["decision"] * 3
    first = last(heard.split(b"\n\n")[0])
    missed, _ = log.follow(first)
    assert events(missed) == ["decision", "decision", "ready"]
    assert events(log.follow(last(heard))[0]) == ["ready"]
    assert events(log.follow(last(ready))[0]) == ["decision"] * 3 + ["ready"]


@in_loop
async def test_who_was_away_for_too_long_or_over_a_restart_begins_anew() -> None:
    log = EventLog(kept=2)
    (ready,), _ = log.follow()
    for _ in range(3):
        log.publish("detection", b"{}")
    other = last(b"".join(EventLog().follow()[0]))
    for known in (last(ready), f"{log._run}-99", f"{log._run}-x", f"{log._run}-", "nonsense", "", other[:-1] + "1"):
        assert events(log.follow(known)[0])[0] == ("anew" if known else "ready")
