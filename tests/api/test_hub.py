"""The hub: everybody is told, nobody is waited for."""

from __future__ import annotations

import asyncio

import pytest

from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.exporters.hub import Hub, frame
from tests.support.loops import in_loop

A, B = frame("decision", b'{"n":1}'), frame("decision", b'{"n":2}')


def test_an_event_is_framed_as_server_sent_events_are() -> None:
    assert A == b'event: decision\ndata: {"n":1}\n\n'


@in_loop
async def test_every_listener_is_told_everything_in_order() -> None:
    hub = Hub()
    first, second = hub.listen(), hub.listen()
    hub.publish("decision", b'{"n":1}')
    hub.publish("decision", b'{"n":2}')
    assert (await first.take(1), await second.take(1)) == (A + B, A + B)
    assert await first.take(0.001) == b""


@in_loop
async def test_who_waits_is_woken_at_once() -> None:
    hub = Hub()
    listener = hub.listen()
    waiting = asyncio.create_task(listener.take(30))
    await asyncio.sleep(0)
    hub.publish("decision", b'{"n":1}')
    assert await asyncio.wait_for(waiting, 1) == A


@in_loop
async def test_a_listener_that_does_not_keep_up_is_dropped_and_counted() -> None:
    hub = Hub(max_waiting=3)
    slow, quick = hub.listen(), hub.listen()
    for _ in range(4):
        hub.publish("decision", b'{"n":1}')
        await quick.take(1)
    assert await slow.take(1) is None
    assert (slow.closed, quick.closed, len(hub), hub.dropped) == (True, False, 1, 1)


@in_loop
async def test_no_more_listen_than_the_limit() -> None:
    hub = Hub(max_listeners=1)
    listener = hub.listen()
    with pytest.raises(UnavailableError):
        hub.listen()
    listener.close()
    hub.listen()


@in_loop
async def test_the_end_of_the_hub_ends_all_listeners() -> None:
    hub = Hub()
    waiting = asyncio.create_task(hub.listen().take(30))
    await asyncio.sleep(0)
    hub.close()
    assert await asyncio.wait_for(waiting, 1) is None
    assert len(hub) == 0
