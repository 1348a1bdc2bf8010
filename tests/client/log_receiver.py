"""An OTLP/HTTP endpoint for logs, which reads reports of Guards, and can be away."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from spanfuse_processor.otlp.decode import decode_logs
from spanfuse_processor.otlp.reports import report_of
from spanfuse_schemas.guard_report import GuardReport

FAR_NS = 2**62


class LogReceiver:
    """Answers with `status`; notes what reports came, whatever it answered, and what it took. Spans it takes unread.

    Args:
        port: 0: a free one.
    """

    def __init__(self, port: int = 0) -> None:
        self.status = 200
        self.came: list[GuardReport] = []
        self.taken: list[GuardReport] = []
        self.requests: list[dict[str, str]] = []
        self.bytes = 0
        self.hang = threading.Event()
        self.hang.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: Any) -> None:
                """Quiet."""

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.hang.wait(10)
                receiver.took(body, {"path": self.path, **{k.lower(): v for k, v in self.headers.items()}})
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def took(self, body: bytes, request: dict[str, str]) -> None:
        """A request has come."""
        self.requests.append(request)
        self.bytes += len(body)
        if not request["path"].endswith("/v1/logs"):
            return
        reports = [r for record in decode_logs(body, "json") if (r := report_of(record, FAR_NS)) is not None]
        self.came += reports
        if self.status == 200:
            self.taken += reports

    def close(self) -> None:
        """Stop listening."""
        self.hang.set()
        self.server.shutdown()
        self.server.server_close()
