"""Decisions over server-sent events, against a real server that dies, falls silent, lies and comes back."""

from __future__ import annotations

import logging
import queue
import socket
import ssl
import time
from collections.abc import Iterator

import pytest

from spanfuse import Guard
from spanfuse.subscribers import sse
from spanfuse.subscribers.sse import SseSubscriber, events
from spanfuse.testing import block, closed, is_blocked
from tests.client.dead import free_port
from tests.client.sse_server import SseServer
from tests.client.waiting import own_threads, wait_until


@pytest.fixture
def server() -> Iterator[SseServer]:
    with SseServer(block("session:old")) as running:
        yield running


def test_the_snapshot_is_known_when_ready_and_changes_follow(server: SseServer) -> None:
    with Guard(server.url, mode="enforce") as guard:
        assert guard.wait_ready(10)
        assert is_blocked(guard, session="old")
        server.publish(block("session:new"))
        wait_until(lambda: is_blocked(guard, session="new"))
        server.publish(closed("session:old"))
        wait_until(lambda: is_blocked(guard, session="old") is None)
        assert guard.state == "ready"


def test_lines_may_end_as_on_windows_and_arrive_in_any_pieces() -> None:
    stream = b": hello\r\nevent: decision\r\ndata: one\r\ndata: two\r\n\r\n\r\nevent: ready\ndata:{}\n\ndata: bare\n\n"
    for size in (1, 2, 3, 7, 1000):
        pieces = iter([stream[i : i + size] for i in range(0, len(stream), size)])
        found = list(events(lambda pieces=pieces: next(pieces, b"")))  # type: ignore[misc]
        assert found == [("", b""), ("decision", b"one\ntwo"), ("ready", b"{}"), ("message", b"bare")]
    with SseServer(block("session:s"), newline="\r\n") as server, Guard(server.url, mode="enforce") as guard:
        assert guard.wait_ready(10)
        assert is_blocked(guard, session="s")


@pytest.mark.parametrize("flood", [b"data: " + b"x" * 1000, b"data: x\n"])
def test_a_stream_without_end_is_bounded(flood: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 5000)
    with pytest.raises(ValueError, match="more than 5000 bytes"):
        list(events(lambda: flood))


@pytest.mark.parametrize("flood", [b"data: " + b"x" * 1000, b"data: x\n"])
def test_an_event_without_end_is_not_skipped_for_ever(flood: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 5000)
    monkeypatch.setattr(sse, "MAX_SKIPPED_BYTES", 50_000)
    told: list[None] = []
    with pytest.raises(ValueError, match="more than 50000 bytes"):
        list(events(lambda: flood, lambda: told.append(None)))
    assert len(told) == 1


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
@pytest.mark.parametrize("large", [b"data: " + b"x" * 90, b"data: xxxxxxxx@" * 12, b":" + b"x" * 90])
def test_an_oversized_event_is_skipped_whatever_the_pieces(
    newline: bytes, large: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 50)
    stream = b"data: a@@event: decision@" + large.rstrip(b"@") + b"@data: more@@event: ready@data: {}@@"
    stream = stream.replace(b"@", newline)
    for size in (1, 2, 3, 7, 40):
        pieces = iter([stream[i : i + size] for i in range(0, len(stream), size)])
        told: list[None] = []
        found = list(events(lambda pieces=pieces: next(pieces, b""), lambda told=told: told.append(None)))  # type: ignore[misc]
        assert found == [("message", b"a"), ("ready", b"{}")]
        assert len(told) == 1


class Large(SseServer):
    """Its snapshot begins with an event larger than any that is read."""

    def open(self) -> tuple[list[bytes], queue.SimpleQueue[bytes | None]]:
        snapshot, waiting = super().open()
        return [self.event("decision", "x" * 1_200_000), *snapshot], waiting


class Unfinished(SseServer):
    """Its snapshot lacks the event `ready`."""

    def open(self) -> tuple[list[bytes], queue.SimpleQueue[bytes | None]]:
        snapshot, waiting = super().open()
        return snapshot[:-1], waiting


def test_an_oversized_event_hides_nothing_and_is_counted() -> None:
    with Large(block("session:old")) as server:
        subscriber = SseSubscriber(server.url)
        with Guard(subscriber, mode="enforce") as guard:
            assert guard.wait_ready(10)
            assert is_blocked(guard, session="old")
            server.send(server.event("decision", "y" * 3_000_000))
            server.publish(block("session:new"))
            wait_until(lambda: is_blocked(guard, session="new"))
            assert (subscriber.undecodable, subscriber.reconnects, server.connections) == (2, 0, 1)


def test_what_is_heard_before_the_snapshot_is_finished_is_no_sign_of_life() -> None:
    with Unfinished(block("session:s")) as server:
        subscriber = SseSubscriber(server.url)
        with Guard(subscriber) as guard:
            guard.start()
            wait_until(lambda: server.connections)
            server.send(b": alive\n\n" + server.event("decision", "garbage") * 2)
            wait_until(lambda: subscriber.undecodable == 2)
            assert (guard.state, guard.age_s) == ("connecting", None)
            server.send(server.event("ready", "{}"))
            assert guard.wait_ready(10)
            assert guard.age_s is not None


def test_what_is_no_decision_is_counted_and_hides_nothing(server: SseServer) -> None:
    subscriber = SseSubscriber(server.url)
    with Guard(subscriber, mode="enforce") as guard:
        assert guard.wait_ready(10)
        for data in ("", "{}", "not json", '{"key": 5}', '{"key":"session:s","state":"ajar","issued_at_ns":1}'):
            server.send(server.event("decision", data))
        server.send(server.event("later", "{}") + b"id: 7\nretry: 10\n\n")
        server.publish(block("session:good"))
        wait_until(lambda: is_blocked(guard, session="good"))
        assert subscriber.undecodable == 5
        assert subscriber.reconnects == 0


def test_a_server_that_is_away_at_the_start_is_found_when_it_comes(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    with Guard(f"http://127.0.0.1:{port}", mode="enforce") as guard:
        subscriber = guard._feed.subscriber
        assert isinstance(subscriber, SseSubscriber)
        assert is_blocked(guard, session="s") is None
        wait_until(lambda: subscriber.reconnects >= 3)
        assert (guard.state, subscriber.state) == ("connecting", "connecting")
        assert "refused" in subscriber.last_error
        with SseServer(block("session:s"), port=port):
            assert guard.wait_ready(15)
            assert is_blocked(guard, session="s")
            assert subscriber.last_error == ""
            assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 1, "one line for one outage"


def test_known_blocks_outlive_the_server_and_a_reset_missed_meanwhile_is_seen_afterwards(server: SseServer) -> None:
    server.publish(block("session:kept"))
    with Guard(server.url, mode="enforce") as guard:
        assert guard.wait_ready(10)
        subscriber = guard._feed.subscriber
        server.stop()
        wait_until(lambda: subscriber.state == "connecting")
        assert is_blocked(guard, session="old")
        assert is_blocked(guard, session="kept")
        with SseServer(server.decisions["session:kept"], port=server.port):
            wait_until(lambda: subscriber.state == "ready")
            assert is_blocked(guard, session="old") is None
            assert is_blocked(guard, session="kept")


def test_silence_counts_as_a_lost_connection(server: SseServer) -> None:
    """A peer that vanished without a word (a cut cable, a frozen process) is told from one with nothing to say."""
    subscriber = SseSubscriber(server.url, read_timeout_s=0.5)
    with Guard(subscriber, staleness_s=0.3) as guard:
        assert guard.wait_ready(10)
        wait_until(lambda: server.connections == 1)
        server.silent = True
        wait_until(lambda: guard.state == "stale")
        wait_until(lambda: server.connections >= 2, what="it connects again")
        server.silent = False
        wait_until(lambda: guard.state == "ready")


def test_keep_alives_are_signs_of_life(server: SseServer) -> None:
    with Guard(SseSubscriber(server.url, read_timeout_s=2)) as guard:
        assert guard.wait_ready(10)
        before = guard._feed._last_sign_s
        wait_until(lambda: guard._feed._last_sign_s > before + 0.3)
        assert server.connections == 1


@pytest.mark.parametrize("path", ["/elsewhere", "/prefix/"])
def test_another_answer_than_200_is_tried_again_and_said(server: SseServer, path: str) -> None:
    subscriber = SseSubscriber(server.url + path)
    with Guard(subscriber):
        wait_until(lambda: subscriber.reconnects >= 2)
        assert "404" in subscriber.last_error
    assert server.requests[0]["path"] == path.rstrip("/") + "/v1/decisions/stream"


def test_headers_are_sent_along(server: SseServer) -> None:
    with Guard(SseSubscriber(server.url, headers={"Authorization": "Bearer x"})) as guard:
        assert guard.wait_ready(10)
    assert server.requests[0]["Authorization"] == "Bearer x"
    assert server.requests[0]["Accept"] == "text/event-stream"


def test_closing_is_prompt_whatever_the_thread_waits_for(server: SseServer) -> None:
    server.silent, others = True, own_threads()
    held = socket.create_server(("127.0.0.1", 0))  # Accepts, and never answers.
    for url in (server.url, f"http://127.0.0.1:{held.getsockname()[1]}", f"http://127.0.0.1:{free_port()}"):
        guard = Guard(url)
        guard.wait_ready(0.2)
        begin = time.monotonic()
        guard.close()
        assert time.monotonic() - begin < 3
        assert own_threads() <= others
    held.close()


def test_https_needs_a_certificate_that_is_trusted() -> None:
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with SseServer(block("session:s")) as server:
        server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
        url = server.url.replace("http:", "https:")
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        with Guard(SseSubscriber(url, ssl_context=trusting), mode="enforce") as guard:
            assert guard.wait_ready(10)
            assert is_blocked(guard, session="s")
        distrusting = SseSubscriber(url)
        with Guard(distrusting):
            wait_until(lambda: "CERTIFICATE_VERIFY_FAILED" in distrusting.last_error)


def test_a_large_snapshot_arrives_whole() -> None:
    with SseServer(*(block(f"session:{i}") for i in range(5000))) as server, Guard(server.url) as guard:
        assert guard.wait_ready(30)
        assert len(guard.decisions()) == 5000
