"""Sending: in order, tried again where that helps, given up in the end, and never in anybody's way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from spanfuse_processor.config.alerts import Slack
from spanfuse_processor.exporters.alerts.delivery import FIRST_S, LONGEST_S, Outlet
from spanfuse_processor.exporters.alerts.model import Alert, Notice
from spanfuse_processor.exporters.alerts.receivers.slack import SlackSender
from spanfuse_processor.exporters.alerts.sender import LaterError, RefusedError
from tests.support import alert_servers
from tests.support.loops import in_loop
from tests.support.stream import until


def notice(n: int = 0) -> Notice:
    return Notice("firing", Alert(id=f"{n:016x}", rule="cycle", title=f"number {n}"))


class Script:
    """A sender that does what it is told, and then takes all."""

    kind = "log"

    def __init__(self, *script: Exception) -> None:
        self.script, self.sent, self.pauses = list(script), list[str](), list[float]()

    async def send(self, notice: Notice) -> None:
        """Do it."""
        if self.script:
            raise self.script.pop(0)
        self.sent.append(notice.alert.title)

    async def pause(self, seconds: float) -> None:
        """Remember how long, and do not wait."""
        self.pauses.append(seconds)
        await asyncio.sleep(0)


@asynccontextmanager
async def running(outlet: Outlet) -> AsyncIterator[None]:
    task = asyncio.create_task(outlet.run())
    try:
        yield
        await asyncio.wait_for(outlet.idle.wait(), 10)
    finally:
        task.cancel()


@in_loop
async def test_pauses_double_up_to_a_minute_with_chance_in_them() -> None:
    """So that a thousand processes do not come back in the same moment."""
    sender = Script(*[LaterError("HTTP 500")] * 9)
    outlet = Outlet("log", sender, pause=sender.pause)
    async with running(outlet):
        outlet.put(notice())
    assert sender.sent == ["number 0"]
    assert outlet.counts["retries"] == 9
    for pause_s, most in zip(sender.pauses, [FIRST_S * 2**n for n in range(9)], strict=True):
        assert min(most, LONGEST_S) / 2 <= pause_s <= min(most, LONGEST_S)


@in_loop
async def test_a_receiver_that_says_when_is_not_asked_before() -> None:
    """429 with Retry-After."""
    sender = Script(LaterError("HTTP 429", 30))
    outlet = Outlet("log", sender, pause=sender.pause)
    async with running(outlet):
        outlet.put(notice())
    assert sender.pauses == [30]


@in_loop
async def test_what_is_refused_or_takes_too_long_is_counted_and_the_next_goes_out() -> None:
    """Neither a 400 nor an hour of 500s holds up what comes after."""
    sender = Script(RefusedError("HTTP 400"), LaterError("HTTP 503", 10_000), ValueError("a bug"))
    outlet = Outlet("log", sender, pause=sender.pause, give_up_after_s=1_000)
    async with running(outlet):
        for n in range(4):
            outlet.put(notice(n))
    assert sender.sent == ["number 3"]
    assert outlet.counts == {"delivered": 1, "refused": 2, "given_up": 1, "retries": 0, "dropped": 0}


@in_loop
async def test_a_queue_that_is_full_drops_the_oldest_and_counts() -> None:
    """Nobody waits to put something in."""
    sender = Script()
    outlet = Outlet("log", sender, queue=3)
    for n in range(10):
        outlet.put(notice(n))
    async with running(outlet):
        pass
    assert sender.sent == ["number 7", "number 8", "number 9"]
    assert outlet.counts["dropped"] == 7


@in_loop
async def test_a_server_that_answers_nothing_is_tried_again_and_gets_it_in_the_end() -> None:
    """Slow, then 429, then 500, then well: real requests, one message."""
    with alert_servers.served(alert_servers.slack) as taken:
        taken.silent.set()
        async with httpx.AsyncClient() as client:
            outlet = Outlet("slack", SlackSender(Slack(url=taken.url), client, ""), timeout_s=0.2)
            pauses = list[float]()

            async def pause(seconds: float) -> None:
                pauses.append(seconds)
                if len(pauses) == 1:
                    taken.answers += [(500, {})] * 2 + [
                        (429, {"Retry-After": "30"}),
                        (500, {}),
                    ]  # the first is of the silence
                    taken.silent.clear()
                    await until(lambda: len(taken.answers) < 4, "the silent one is through", 5, 0.01)

            outlet._pause = pause
            async with running(outlet):
                outlet.put(notice())
    assert outlet.counts["delivered"] == 1
    assert len(taken.bodies) == 1
    assert 30 in pauses


@in_loop
async def test_a_test_is_sent_at_once_and_tells_what_became_of_it() -> None:
    """Beside whatever waits, and without a further try."""
    outlet = Outlet("log", Script(RefusedError("HTTP 403"), LaterError("no")))
    found = [await outlet.test(notice()) for _ in range(3)]
    assert [(one.delivered, one.why) for one in found] == [(False, "HTTP 403"), (False, "no"), (True, "")]
