"""Decisions from the API, as server-sent events: for hosts that cannot or need not reach Kafka."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from spanfuse.subscribers.base import Sink, Snapshot, ThreadSubscriber

PATH: Final = "/v1/decisions/stream"
MAX_EVENT_BYTES: Final = 1024 * 1024
"""Longest line or event that is read; a decision is a few hundred bytes."""
MAX_SKIPPED_BYTES: Final = 64 * MAX_EVENT_BYTES
"""Longest event that is skipped; what is longer has no end."""


class SseSubscriber(ThreadSubscriber):
    """Follows `/v1/decisions/stream`: the snapshot, the event `ready`, then each change.

    It connects directly; proxies named in the environment are not used.

    Args:
        url: base address of the API, such as `http://127.0.0.1:8787`.
        headers: sent along, such as `{"Authorization": "Bearer …"}`.
        read_timeout_s: silence after which the connection counts as lost, seconds. The API sends a comment every 5 s, so
            15 s is three of them missed.
        connect_timeout_s: time to connect, seconds.
        ssl_context: for https; None: the system's certificates.

    Raises:
        ValueError: if `url` is not an http or https address.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        read_timeout_s: float = 15.0,
        connect_timeout_s: float = 5.0,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not an http(s) address: {url!r}")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port or (443 if self._secure else 80)
        self._path = parts.path.rstrip("/") + PATH
        self._headers = {"Accept": "text/event-stream", "Cache-Control": "no-cache", **(headers or {})}
        self._read_timeout_s, self._connect_timeout_s = read_timeout_s, connect_timeout_s
        self._ssl_context = ssl_context
        self._socket: socket.socket | None = None
        super().__init__(f"sse {self._host}:{self._port}")

    def _follow(self, sink: Sink, stop: threading.Event) -> None:
        connection = self._connect()
        held = self._socket
        try:
            if stop.is_set():  # Closing could not wake the thread from connecting.
                return
            connection.request("GET", self._path, headers=self._headers)
            response = connection.getresponse()
            if response.status != http.client.OK:
                raise ConnectionError(f"{self._path} answers {response.status} {response.reason}")
            self._read(response, sink, stop)
        finally:
            if self._socket is held:  # Else closing did not wait for this thread, and another has begun.
                self._socket = None
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        """A connection whose socket is kept apart from the first moment on: closing must reach it, whatever the thread waits
        for, and http.client gives it away only when it is connected, and lets go of it when the response has no length."""
        dialled = self._dial()
        try:
            if self._secure:
                dialled = self._secured(dialled)
            dialled.settimeout(self._read_timeout_s)
        except BaseException:
            dialled.close()
            raise
        connection = http.client.HTTPConnection(self._host, self._port)
        connection.default_port, connection.sock = 443 if self._secure else 80, dialled
        return connection

    def _dial(self) -> socket.socket:
        failure = OSError(f"{self._host} has no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(self._host, self._port, 0, socket.SOCK_STREAM):
            self._socket = dialled = socket.socket(family, kind, protocol)
            dialled.settimeout(self._connect_timeout_s)
            try:
                dialled.connect(address)
            except OSError as error:
                dialled.close()
                failure = error
            else:
                return dialled
        raise failure

    def _secured(self, dialled: socket.socket) -> ssl.SSLSocket:
        context = self._ssl_context or ssl.create_default_context()
        secured = context.wrap_socket(dialled, server_hostname=self._host, do_handshake_on_connect=False)
        self._socket = secured
        try:
            secured.do_handshake()
        except BaseException:
            secured.close()
            raise
        return secured

    def _read(self, response: http.client.HTTPResponse, sink: Sink, stop: threading.Event) -> None:
        snapshot: Snapshot | None = self._snapshot()
        for name, data in events(lambda: response.read1(65536), self._skipped):
            if stop.is_set():
                return
            if name == "decision":
                decision = self._decision(data)
                if decision is not None:
                    (sink if snapshot is None else snapshot).apply(decision)
            elif name == "policy":
                notice = self._notice(data)
                if notice is not None:
                    (sink if snapshot is None else snapshot).govern(notice)
            elif name == "ready" and snapshot is not None:
                snapshot.hand_over(sink)
                snapshot = None
                self._caught_up()
            if snapshot is None:  # Until all of the present is known, to hear something is to know nothing.
                sink.alive()

    def _interrupt(self) -> None:
        held = self._socket
        if held is not None:
            with suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)

    def _drop(self) -> None:
        held, self._socket = self._socket, None
        if held is not None:
            with suppress(OSError):
                held.close()  # Only this process's handle: the parent's connection stays.


def _refused() -> None:
    raise ValueError(f"an event of more than {MAX_EVENT_BYTES} bytes")


def events(read: Callable[[], bytes], oversized: Callable[[], None] = _refused) -> Iterator[tuple[str, bytes]]:
    """The events of a stream as (name, data); `("", b"")` for a comment, which is how a server shows it is alive.

    Args:
        read: gives the next bytes as they come, none at the end.
        oversized: told of each event longer than `MAX_EVENT_BYTES`, which is skipped; default: such an event is an error.

    Raises:
        ValueError: on an event longer than `MAX_SKIPPED_BYTES`.
    """
    rest, name, data, skipped = b"", "", bytearray(), 0
    while chunk := read():
        *lines, rest = (rest + chunk).split(b"\n")
        for raw in lines:
            line = raw.removesuffix(b"\r")
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if not line:
                if not skipped and (name or data):
                    yield name or "message", bytes(data)
                name, data, skipped = "", bytearray(), 0
            elif skipped:
                skipped += len(raw)
            elif len(line) + len(data) > MAX_EVENT_BYTES:
                oversized()
                skipped = 1
            elif not field:
                yield "", b""
            elif field == b"event":
                name = value.decode("utf-8", "replace")
            elif field == b"data":
                data += b"\n" + value if data else value
        if not skipped and len(rest) > MAX_EVENT_BYTES:
            oversized()
            skipped = 1
        if skipped:
            skipped += len(rest)
            rest = rest[:1]  # Enough to know that the line is none of those without a character, which end an event.
        if skipped > MAX_SKIPPED_BYTES:
            raise ValueError(f"an event of more than {MAX_SKIPPED_BYTES} bytes")
