"""The watchers ask a host, and go on when it cannot answer."""

from __future__ import annotations

import pytest

from spanfuse_processor.config.alerts import Watch as Settings
from spanfuse_processor.exporters.alerts.watch import Watch
from tests.support.console import NOW_NS, FakeConsole
from tests.support.loops import in_loop


@in_loop
async def test_what_is_asked_can_be_asked_and_what_was_learned_outlives_a_restart() -> None:
    """Against a console of 300 sessions, many looks; what was told before is not told again."""
    settings = Settings.model_validate({"block_rate": {"share": 0.01, "window_s": 86_400}})
    console = FakeConsole(300)
    first = Watch(console, settings)
    found = [one for n in range(11) for one in await first.look(NOW_NS + n * 60 * 10**9)]
    assert "policy.block_rate" in {one.rule for one in found}
    second = Watch(console, settings)
    second.restore(first.snapshot())
    assert "policy.block_rate" not in {one.rule for one in await second.look(NOW_NS)}
    Watch(console, settings).restore({"silence": 5, "spikes": ["rubbish"], "unpriced": None})


@in_loop
async def test_a_host_that_cannot_answer_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    """Each kind of question is logged once, not each minute."""
    console = FakeConsole(10)
    console.away = True
    watch = Watch(console, Settings())
    for n in range(7):
        assert await watch.look(NOW_NS + n) == []
    assert len(caplog.messages) == 4
    console.away = False
    await watch.look(NOW_NS)
