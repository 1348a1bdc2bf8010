"""Anthropic: messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.support.provider_api.reply import Reply, model_of, sse


def message(asked: dict[str, Any], reply: Reply, number: int) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
    for n, (name, arguments) in enumerate(reply.tools):
        content.append({"type": "tool_use", "id": f"toolu_{number}_{n}", "name": name, "input": arguments})
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model_of(asked, reply),
        "content": content,
        "stop_reason": "tool_use" if reply.tools else "end_turn",
        "stop_sequence": None,
        "usage": _message_usage(reply),
    }


def _message_usage(reply: Reply) -> dict[str, Any]:
    return {
        "input_tokens": reply.input_tokens - reply.cached,
        "output_tokens": reply.output_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": reply.cached,
    }


def message_events(asked: dict[str, Any], reply: Reply, number: int) -> Iterator[bytes]:
    for kind, fields in _message_steps(message(asked, reply, number), reply):
        yield sse({"type": kind} | fields, kind)


def _message_steps(whole: dict[str, Any], reply: Reply) -> Iterator[tuple[str, dict[str, Any]]]:
    begun = {"content": [], "stop_reason": None, "usage": whole["usage"] | {"output_tokens": 1}}
    yield "message_start", {"message": whole | begun}
    yield "ping", {}
    for index, block in enumerate(whole["content"]):
        of_text = block["type"] == "text"
        empty: dict[str, Any] = {"text": ""} if of_text else {"input": {}}
        yield "content_block_start", {"index": index, "content_block": block | empty}
        kind, part = ("text_delta", "text") if of_text else ("input_json_delta", "partial_json")
        for piece in reply.pieces if of_text else [json.dumps(block["input"])]:
            delta = {"type": kind, part: piece}
            yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"delta": stop, "usage": {"output_tokens": reply.output_tokens}}
    yield "message_stop", {}
