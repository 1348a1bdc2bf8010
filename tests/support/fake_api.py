"""An API that answers what a test tells it, on a loopback port."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class FakeApi:
    """Answers by (method, path): a (status, JSON) pair, or a list of raw chunks of an event stream.

    Streams stay open after their last chunk until the context ends, unless `closes` is set. All else is answered by `missing`.
    """

    def __init__(
        self,
        answers: dict[tuple[str, str], Any],
        *,
        closes: bool = False,
        missing: tuple[int, Any] = (404, {"error": "not found"}),
    ) -> None:
        self._missing = missing
        self.requests: list[tuple[str, str, Any]] = []
        self._done = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(answers, closes))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def _handler(self, answers: dict[tuple[str, str], Any], closes: bool) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer("GET", None)

            def do_PUT(self) -> None:
                self._with_body("PUT")

            def do_POST(self) -> None:
                self._with_body("POST")

            def _with_body(self, method: str) -> None:
                length = int(self.headers.get("Content-Length", 0))
                self._answer(method, json.loads(self.rfile.read(length)))

            def _answer(self, method: str, body: Any) -> None:
                api.requests.append((method, self.path, body))
                answer = answers.get((method, self.path), api._missing)
                if isinstance(answer, list):
                    self._stream(answer)
                    return
                status, value = answer
                data = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def _stream(self, chunks: list[str]) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                for chunk in chunks:
                    self.wfile.write(chunk.encode())
                    self.wfile.flush()
                if not closes:
                    api._done.wait(30)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
