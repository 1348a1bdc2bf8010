"""A fake LLM: an OpenAI-compatible `/v1/chat/completions` on a free loopback port, whose answers depend only on the request."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

from spanfuse_processor.demo.scenarios import BY_NAME, PAGES

LATENCY_S: Final = 0.02
"""How long the model thinks, seconds."""

MAX_BODY_BYTES: Final = 1024 * 1024


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The chat completion for a request.

    Args:
        request: its `user` names the scenario.
    """
    scenario = BY_NAME[request["user"]]
    message = _tool_turn(request["messages"]) if scenario.stopped_by is None else _text(request["messages"])
    prompt_tokens, completion_tokens = scenario.usage
    return {
        "id": f"chatcmpl-{len(request['messages'])}",
        "object": "chat.completion",
        "model": request["model"],
        "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def _text(messages: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "assistant", "content": f"You asked: {messages[-1]['content']} I would rather not say."}


def _tool_turn(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Ask for the next page until all are read."""
    read = sum(message["role"] == "tool" for message in messages)
    if read >= PAGES:
        return {"role": "assistant", "content": f"I read {read} pages; the breaker opened on none of them."}
    function = {"name": "read_page", "arguments": json.dumps({"page": read})}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call_{read}", "type": "function", "function": function}],
    }


class _Handler(BaseHTTPRequestHandler):
    timeout = 10
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        if self.path != "/v1/chat/completions" or not 0 < length <= MAX_BODY_BYTES:
            self.send_error(404)
            return
        body = json.dumps(answer(json.loads(self.rfile.read(length)))).encode()
        time.sleep(LATENCY_S)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the demo's output is the demo's."""


class FakeLlm:
    """The server, on threads of this process, while the context lasts."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="fake-llm", daemon=True)

    @property
    def url(self) -> str:
        """Base URL, without `/v1`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)
