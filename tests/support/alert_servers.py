"""Servers that alerts are sent to: each checks what it gets by the published rules of the service it stands for."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Check = Callable[[dict[str, Any]], str]
"""What is wrong with a body; empty: nothing."""


@dataclass
class Taken:
    """What a server got.

    Attributes:
        bodies: those that it took, parsed.
        wrong: why it refused others.
        raw: all bodies, with their headers.
        answers: statuses and headers to answer with, in order, before it begins to take them.
        silent: set to have it answer nothing.
    """

    check: Check
    status: int = 200
    bodies: list[dict[str, Any]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    raw: list[tuple[bytes, dict[str, str]]] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    silent: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def answer(self, data: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str]]:
        """Take a request."""
        self.raw.append((data, headers))
        if self.answers:
            return self.answers.pop(0)
        body = json.loads(data)
        if problem := self.check(body):
            self.wrong.append(problem)
            return 400, {}
        self.bodies.append(body)
        return self.status, {}


@contextmanager
def served(check: Check, status: int = 200) -> Iterator[Taken]:
    """A server on a free port, until the end."""
    taken, over = Taken(check, status), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            while taken.silent.is_set() and not over.wait(0.01):
                pass
            code, headers = taken.answer(data, {name.lower(): value for name, value in self.headers.items()})
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    taken.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    try:
        yield taken
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


def slack(body: dict[str, Any]) -> str:
    """Block Kit, as Slack's reference has it."""
    if set(body) - {"text", "blocks"} or not body.get("text"):
        return "text is missing, or there are others"
    blocks = body.get("blocks", [])
    if not 1 <= len(blocks) <= 50:
        return "1 to 50 blocks"
    return next((problem for block in blocks if (problem := _block(block))), "")


def _block(block: dict[str, Any]) -> str:
    match block["type"]:
        case "header":
            return _text(block["text"], 150, ("plain_text",))
        case "section":
            fields = block.get("fields", [])
            if ("text" in block) == bool(fields) or len(fields) > 10:
                return "a section has a text, or 1 to 10 fields"
            found = [_text(each, 2000) for each in fields] if fields else [_text(block["text"], 3000)]
            return next(filter(None, found), "")
        case "context":
            return next(filter(None, (_text(each, 2000) for each in block["elements"][:10])), "")
        case "actions":
            buttons = block["elements"]
            bad = [
                b
                for b in buttons
                if b["type"] != "button" or _text(b["text"], 75, ("plain_text",)) or len(b["url"]) > 3000
            ]
            return "a button" if bad or not 1 <= len(buttons) <= 25 else ""
    return f"no block {block['type']}"


def _text(text: dict[str, Any], most: int, kinds: tuple[str, ...] = ("plain_text", "mrkdwn")) -> str:
    if text["type"] not in kinds or not 1 <= len(text["text"]) <= most:
        return f"{text['type']} of {len(text['text'])} characters"
    if text["type"] == "mrkdwn" and ("emoji" in text or re.search(r"<[@!#]", text["text"])):
        return "mentions somebody"
    return ""


def pagerduty(body: dict[str, Any]) -> str:
    """Events API v2."""
    if not re.fullmatch(r"[0-9a-f]{32}", body.get("routing_key", "")):
        return "routing_key"
    if body.get("event_action") not in ("trigger", "acknowledge", "resolve"):
        return "event_action"
    if not 1 <= len(body.get("dedup_key", "")) <= 255:
        return "dedup_key"
    if body["event_action"] != "trigger":
        return ""
    payload = body["payload"]
    if not 1 <= len(payload["summary"]) <= 1024 or not payload["source"]:
        return "summary or source"
    if payload["severity"] not in ("critical", "error", "warning", "info"):
        return "severity"
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", payload["timestamp"]):
        return "timestamp"
    if any(set(each) != {"href", "text"} or not each["href"].startswith("http") for each in body.get("links", [])):
        return "links"
    return "" if isinstance(payload.get("custom_details", {}), dict) else "custom_details"


def webhook(body: dict[str, Any]) -> str:
    """What docs/alerts.md promises."""
    wanted = {
        "event_type": str,
        "agent_id": str,
        "data": dict,
        "timestamp": str,
        "id": str,
        "state": str,
        "severity": str,
    }
    return next((name for name, kind in wanted.items() if not isinstance(body.get(name), kind)), "")


def is_signed(secret: str, data: bytes, headers: dict[str, str], now_s: float, tolerance_s: float = 300) -> bool:
    """As docs/alerts.md tells receivers to look."""
    parts = dict(part.split("=", 1) for part in headers.get("x-spanfuse-signature", "").split(",") if "=" in part)
    at, given = parts.get("t", "0"), parts.get("v1", "")
    wanted = hmac.new(secret.encode(), at.encode() + b"." + data, hashlib.sha256).hexdigest()
    return hmac.compare_digest(wanted, given) and abs(now_s - int(at)) <= tolerance_s
