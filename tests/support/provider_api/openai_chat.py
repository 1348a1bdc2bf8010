"""OpenAI: chat completions, completions, embeddings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.support.provider_api.reply import CREATED, Reply, model_of, sse


def chat(asked: dict[str, Any], reply: Reply, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.tools:
        message["tool_calls"] = [_tool_call(number, n, tool) for n, tool in enumerate(reply.tools)]
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply), "logprobs": None}
    return _chat_head(asked, reply, number, "chat.completion") | {"choices": [choice], "usage": _chat_usage(reply)}


def _chat_head(asked: dict[str, Any], reply: Reply, number: int, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": CREATED, "model": model_of(asked, reply)}


def _tool_call(number: int, n: int, tool: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    called = {"name": tool[0], "arguments": json.dumps(tool[1])}
    return {"id": f"call_{number}_{n}", "type": "function", "function": called}


def _finish(reply: Reply) -> str:
    return "tool_calls" if reply.tools else "stop"


def _chat_usage(reply: Reply) -> dict[str, Any]:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached},
        "completion_tokens_details": {"reasoning_tokens": reply.reasoning},
    }


def chat_events(asked: dict[str, Any], reply: Reply, number: int) -> Iterator[bytes]:
    head = _chat_head(asked, reply, number, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return sse(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]})

    yield chunk({"role": "assistant", "content": ""})
    for piece in reply.pieces:
        yield chunk({"content": piece})
    for n, tool in enumerate(reply.tools):
        yield from (chunk({"tool_calls": [part]}) for part in _tool_deltas(number, n, tool))
    yield chunk({}, _finish(reply))
    if (asked.get("stream_options") or {}).get("include_usage"):
        yield sse(head | {"choices": [], "usage": _chat_usage(reply)})
    yield sse("[DONE]")


def _tool_deltas(number: int, n: int, tool: tuple[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A call to a tool in three pieces, its arguments cut in two."""
    whole = _tool_call(number, n, tool)
    arguments = whole["function"]["arguments"]
    yield {"index": n} | whole | {"function": {"name": tool[0], "arguments": ""}}
    for part in (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :]):
        yield {"index": n, "function": {"arguments": part}}


def text(asked: dict[str, Any], reply: Reply, number: int) -> dict[str, Any]:
    head = {"id": f"cmpl-{number}", "object": "text_completion", "created": CREATED, "model": model_of(asked, reply)}
    choice = {"index": 0, "text": reply.text, "finish_reason": "stop", "logprobs": None}
    return head | {"choices": [choice], "usage": _chat_usage(reply)}


def text_events(asked: dict[str, Any], reply: Reply, number: int) -> Iterator[bytes]:
    head = {"id": f"cmpl-{number}", "object": "text_completion", "created": CREATED, "model": model_of(asked, reply)}
    for n, piece in enumerate(reply.pieces, 1):
        finish = "stop" if n == len(reply.pieces) else None
        yield sse(head | {"choices": [{"index": 0, "text": piece, "finish_reason": finish, "logprobs": None}]})
    yield sse("[DONE]")


def embeddings(asked: dict[str, Any], reply: Reply, number: int) -> dict[str, Any]:
    given = asked.get("input")
    count = len(given) if isinstance(given, list) else 1
    data = [{"object": "embedding", "index": n, "embedding": [0.25, -0.5]} for n in range(count)]
    usage = {"prompt_tokens": reply.input_tokens, "total_tokens": reply.input_tokens}
    return {"object": "list", "data": data, "model": model_of(asked, reply), "usage": usage}
