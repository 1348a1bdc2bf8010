"""The hub: everybody is told, nobody is waited for."""

from __future__ import annotations

import asyncio
import resource

import pytest

from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.exporters.hub import Hub, frame, make_room
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


@pytest.mark.parametrize(("soft", "wanted"), [(256, 128), (1024, 512), (20_000, 1000), (resource.RLIM_INFINITY, 1000)])
def test_listeners_take_at_most_half_of_the_file_descriptors(
    soft: int, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, resource.RLIM_INFINITY))
    hub = Hub()
    for _ in range(wanted):
        hub.listen()
    with pytest.raises(UnavailableError, match=f"{wanted} clients are connected"):
        hub.listen()


def test_the_process_asks_for_all_the_descriptors_it_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    make_room()
    assert asked == [(4096, 4096)]


def test_a_system_that_refuses_more_descriptors_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    make_room()


@in_loop
async def test_the_end_of_the_hub_ends_all_listeners() -> None:
    hub = Hub()
    waiting = asyncio.create_task(hub.listen().take(30))
    await asyncio.sleep(0)
    hub.close()
    assert await asyncio.wait_for(waiting, 1) is None
    assert len(hub) == 0
