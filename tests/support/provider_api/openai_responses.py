"""OpenAI: responses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.support.provider_api.reply import CREATED, Reply, model_of, sse


def response(asked: dict[str, Any], reply: Reply, number: int) -> dict[str, Any]:
    output = [_response_message(reply.text, number)] if reply.text else []
    for n, (name, arguments) in enumerate(reply.tools):
        called = {"call_id": f"call_{number}_{n}", "name": name, "arguments": json.dumps(arguments)}
        output.append({"type": "function_call", "id": f"fc_{number}_{n}", "status": "completed"} | called)
    return _response_head(asked, reply, number, "completed") | {"output": output, "usage": _response_usage(reply)}


def _response_head(asked: dict[str, Any], reply: Reply, number: int, status: str) -> dict[str, Any]:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "model": model_of(asked, reply),
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": asked.get("instructions"),
        "metadata": asked.get("metadata") or {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": asked.get("tools") or [],
        "usage": None,
    }


def _response_message(text: str, number: int, status: str = "completed") -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}] if text else []
    return {"type": "message", "id": f"msg_{number}", "status": status, "role": "assistant", "content": content}


def _response_usage(reply: Reply) -> dict[str, Any]:
    return {
        "input_tokens": reply.input_tokens,
        "input_tokens_details": {"cached_tokens": reply.cached},
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": reply.reasoning},
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }


def response_events(asked: dict[str, Any], reply: Reply, number: int) -> Iterator[bytes]:
    for sequence, (kind, fields) in enumerate(_response_steps(asked, reply, number)):
        yield sse({"type": kind, "sequence_number": sequence} | fields, kind)


def _response_steps(asked: dict[str, Any], reply: Reply, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    whole = response(asked, reply, number)
    begun = _response_head(asked, reply, number, "in_progress")
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(whole["output"]):
        here = {"output_index": index, "item_id": item["id"]}
        nothing: dict[str, Any] = {"content": []} if item["type"] == "message" else {"arguments": ""}
        empty = item | nothing
        yield "response.output_item.added", {"output_index": index, "item": empty | {"status": "in_progress"}}
        if item["type"] == "message":
            yield from _text_steps(here | {"content_index": 0}, reply)
        else:
            yield "response.function_call_arguments.delta", here | {"delta": item["arguments"]}
            yield "response.function_call_arguments.done", here | {"name": item["name"], "arguments": item["arguments"]}
        yield "response.output_item.done", {"output_index": index, "item": item}
    yield "response.completed", {"response": whole}


def _text_steps(here: dict[str, Any], reply: Reply) -> Iterator[tuple[str, dict[str, Any]]]:
    part: dict[str, Any] = {"type": "output_text", "annotations": [], "logprobs": []}
    yield "response.content_part.added", here | {"part": part | {"text": ""}}
    for piece in reply.pieces:
        yield "response.output_text.delta", here | {"delta": piece, "logprobs": []}
    yield "response.output_text.done", here | {"text": reply.text, "logprobs": []}
    yield "response.content_part.done", here | {"part": part | {"text": reply.text}}
