"""A small real server of `/v1/decisions/stream` that tests can stop, silence and bring back on the same port."""

from __future__ import annotations

import queue
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from spanfuse_schemas import Decision


class SseServer:
    """Serves decisions as the API does; `port` 0 takes a free one."""

    def __init__(self, *decisions: Decision, port: int = 0, keepalive_s: float = 0.1, newline: str = "\n") -> None:
        self.decisions = {d.key: d for d in decisions}
        self.keepalive_s, self.newline = keepalive_s, newline
        self.connections = 0
        self.silent = False
        self.requests: list[dict[str, str]] = []
        self._queues: list[queue.SimpleQueue[bytes | None]] = []
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", port), _handler(self))
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> SseServer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def publish(self, *decisions: Decision) -> None:
        """Send changes to all that are connected."""
        with self._lock:
            for decision in decisions:
                self.decisions[decision.key] = decision
                self.send(self.event("decision", decision.to_json().decode()))

    def send(self, data: bytes) -> None:
        """Send bytes to all that are connected."""
        for waiting in self._queues:
            waiting.put(data)

    def event(self, name: str, data: str) -> bytes:
        """An event as bytes."""
        return f"event: {name}{self.newline}data: {data}{self.newline}{self.newline}".encode()

    def open(self) -> tuple[list[bytes], queue.SimpleQueue[bytes | None]]:
        """A connection begins: the snapshot, and where its changes will be."""
        with self._lock:
            waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
            self._queues.append(waiting)
            self.connections += 1
            present = [d for d in self.decisions.values() if d.state != "closed"]
            return [self.event("decision", d.to_json().decode()) for d in present] + [
                self.event("ready", "{}")
            ], waiting

    def stop(self) -> None:
        """Die: the port is closed, and so are all connections."""
        self._server.shutdown()
        self._server.server_close()
        with self._lock:
            self.send(b"")
        self._server.cut()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.open: list[socket.socket] = []
        super().__init__(address, handler)

    def cut(self) -> None:
        for held in self.open:
            try:
                held.shutdown(socket.SHUT_RDWR)
                held.close()
            except OSError:
                continue

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no error here."""


def _handler(owner: SseServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            """Quiet."""

        def do_GET(self) -> None:
            owner._server.open.append(self.connection)
            owner.requests.append({"path": self.path, **dict(self.headers)})
            if self.path != "/v1/decisions/stream":
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            snapshot, waiting = owner.open()
            for event in snapshot:
                self._chunk(event)
            while True:
                try:
                    data = waiting.get(timeout=owner.keepalive_s)
                except queue.Empty:
                    data = b"" if owner.silent else f": keep-alive{owner.newline}{owner.newline}".encode()
                    if not data:
                        continue
                if not data:
                    return
                self._chunk(data)

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    return Handler
