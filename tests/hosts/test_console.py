"""The embedded host as operators see it, end to end within one process."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from spanfuse_processor.api.console import Console
from spanfuse_processor.config import Config
from spanfuse_processor.config.overlay import Overlay
from spanfuse_processor.errors import QueryError
from spanfuse_processor.exporters.readmodel.model import DetectionQuery, SessionQuery
from spanfuse_processor.hosts.embedded import EmbeddedHost
from tests.support.loops import in_loop
from tests.support.recorded import START_NS, chat_span, healthy, repeater, request

OTLP = {"otlp": {"protocols": {"http": {"endpoint": "127.0.0.1:0"}}}}


def config(folder: Path, **sections: Any) -> Config:
    extensions = {"api": {"endpoint": "127.0.0.1:0"}, "storage": {"path": str(folder / "spanfuse.db")}}
    return Config.model_validate(
        {"receivers": OTLP, "extensions": extensions, "service": {"mode": "enforce"}, **sections}
    )


@asynccontextmanager
async def running(made: Config) -> AsyncIterator[tuple[EmbeddedHost, Console]]:
    host = EmbeddedHost(made)
    await host.start()
    try:
        yield host, host.console
    finally:
        await host.stop()


async def send(host: EmbeddedHost, *requests: dict[str, Any]) -> None:
    for one in requests:
        await host.engine.ingest(json.dumps(one).encode(), "json", START_NS)


@in_loop
async def test_a_session_is_listed_with_its_steps_its_repeats_and_what_was_decided(tmp_path: Path) -> None:
    """Equal steps have equal numbers, and the one on which a rule fired says so."""
    async with running(config(tmp_path)) as (host, console):
        await send(host, *repeater(3), *healthy(4, session="other"))
        page = await console.sessions(SessionQuery(state="half_open"))
        (row,) = page.sessions
        assert (row.session, row.calls, row.action, row.rule, row.detections) == (
            "s",
            3,
            "block",
            "repeat.prompt",
            1,
        )
        steps = await console.timeline("s", 200)
        assert [step.loop for step in steps] == [1, 1, 1]
        assert [(step.rules, step.decision) for step in steps] == [
            ((), ""),
            ((), ""),
            (("repeat.prompt",), "block"),
        ]
        assert [step.loop for step in await console.timeline("other", 200)] == [0, 0, 0, 0]
        (decision,) = await console.history("session:s", 9)
        assert decision.rule == "repeat.prompt"
        (found,) = (await console.detections(DetectionQuery(session="s"))).detections
        assert found.rule == "repeat.prompt"
        detail = await console.session("s")
        assert detail is not None
        assert detail.decision is not None
        assert (detail.model, detail.decision.state) == ("gpt-4o-mini", "half_open")
        assert await console.session("nobody") is None


@in_loop
async def test_what_is_counted_is_explained_also_of_what_has_not_tripped(tmp_path: Path) -> None:
    async with running(config(tmp_path)) as (host, console):
        await send(host, *repeater(2))
        views = {view.rule: view for view in (await console.explain("session:s")).rules}
        assert (views["repeat.prompt"].counted, views["repeat.prompt"].threshold) == (2, 3)
        assert views["repeat.prompt"].why.startswith("2 of 3 repeats")
        await send(host, repeater(3)[2])
        found = await console.explain("session:s")
        assert (found.rules[0].rule, found.rules[0].stands) == ("repeat.prompt", True)
        assert found.rules[0].why.startswith("It tripped: ")
        unknown = await console.explain("session:nobody")
        assert (unknown.known, unknown.decision) == (False, None)
        with pytest.raises(QueryError):
            await console.explain("nonsense")


@in_loop
async def test_minutes_are_summed_for_all_and_by_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(config(tmp_path)) as (host, console):
        host.engine.work.store.shown._clock = lambda: START_NS + 60 * 10**9
        await send(host, *repeater(3))
        for kind, name in (("global", "*"), ("model", "gpt-4o-mini")):
            rows = await console.series(kind, name, 3)  # type: ignore[arg-type]
            assert [(row.calls, row.tokens, row.blocks) for row in rows] == [(0, 0, 0), (3, 360, 1), (0, 0, 0)]


@in_loop
async def test_sections_are_laid_over_the_file_survive_a_restart_and_end_when_the_file_changes(tmp_path: Path) -> None:
    patient = Overlay.model_validate({"detectors": {"repeat.prompt": {"count": 5}}})
    async with running(config(tmp_path)) as (_, console):
        notice = await console.put_policy(patient, "alice", "it only waits")
        assert notice.policy.rules.repeat_prompt.count == 5
        assert notice.policy.mode == "enforce"
    async with running(config(tmp_path)) as (host, console):
        assert console.policy.policy.rules.repeat_prompt.count == 5
        laid = await console.overlay()
        assert laid is not None
        assert (laid.actor, laid.reason, laid.in_force) == ("alice", "it only waits", True)
        await send(host, *repeater(4))
        assert console.decisions() == []
        await host.govern(config(tmp_path, detectors={"cycle": {"rounds": 4}}))
        assert console.policy.policy.rules.repeat_prompt.count == 3
        laid = await console.overlay()
        assert laid is not None
        assert not laid.in_force


@in_loop
async def test_an_empty_overlay_takes_away_what_was_there(tmp_path: Path) -> None:
    async with running(config(tmp_path)) as (_, console):
        await console.put_policy(Overlay(mode="observe"), "alice", "")
        assert console.policy.policy.mode == "observe"
        notice = await console.put_policy(Overlay(), "bob", "")
        assert notice.policy.mode == "enforce"
        assert await console.overlay() is None


@pytest.mark.parametrize("path", ["spanfuse.db", ""])
@in_loop
async def test_another_policy_is_tried_on_the_last_calls(tmp_path: Path, path: str) -> None:
    """Told are the sessions that it would stop, and those that it would stop no longer."""
    made = config(tmp_path, extensions={
        "api": {"endpoint": "127.0.0.1:0"}, "storage": {"path": str(tmp_path / path) if path else ""},
    })  # fmt: skip
    async with running(made) as (host, console):
        await send(host, *repeater(6), *healthy(4, session="other"))
        patient = Overlay.model_validate(
            {"detectors": {"repeat.prompt": {"count": 9}, "repeat.action": {"mode": "off"}}}
        )
        found = await console.dry_run(patient, 0)
        assert (found.calls, found.complete) == (10, True)
        assert [row["session"] for row in found.stopped_by_old_only] == ["s"]
        assert found.stopped_by_new_only == ()
        nothing = await console.dry_run(Overlay(), 0)
        assert (nothing.stopped_by_new_only, nothing.stopped_by_old_only, nothing.stopped_elsewhere) == ((), (), ())


@in_loop
async def test_events_are_numbered_and_told_again_from_where_one_was(tmp_path: Path) -> None:
    async with running(config(tmp_path)) as (host, console):
        (ready,), listener = console.events()
        await send(host, *repeater(3))
        told = (await listener.take(1) or b"").decode()
        assert [line for line in told.splitlines() if line.startswith("event")] == [
            "event: decision",
            "event: detection",
        ]
        start = ready.decode().splitlines()[0].removeprefix("id: ")
        again, _ = console.events(start)
        assert b"".join(again).decode().startswith(told)
        anew, _ = console.events("0-7")
        assert b"event: anew" in b"".join(anew)
        await host._tell_changed()
        assert b'{"changed": ["s"], "more": false}' in (await listener.take(1) or b"")


@in_loop
async def test_a_session_that_is_forgotten_is_listed_no_longer(tmp_path: Path) -> None:
    async with running(config(tmp_path)) as (host, console):
        await send(host, *repeater(3))
        host.engine.upkeep.expire(START_NS + 2 * 24 * 3600 * 10**9)
        assert (await console.sessions(SessionQuery())).sessions == ()
        assert await console.timeline("s", 9) == []
        assert (await console.explain("session:s")).known is False


@in_loop
async def test_calls_that_are_sent_again_are_shown_once(tmp_path: Path) -> None:
    async with running(config(tmp_path)) as (host, console):
        for _ in range(2):
            await send(host, request(chat_span(1, [("user", "hello")])))
        (row,) = (await console.sessions(SessionQuery())).sessions
        assert (row.calls, len(await console.timeline("s", 9))) == (1, 1)
