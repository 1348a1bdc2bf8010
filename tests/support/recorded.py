"""Recordings of agents: OTLP/JSON export requests with one GenAI span each."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

START_NS = 1_750_000_000 * 10**9
SECOND = 10**9


def attribute(key: str, value: Any) -> dict[str, Any]:
    """A key and its AnyValue."""
    if isinstance(value, int):
        return {"key": key, "value": {"intValue": str(value)}}
    return {"key": key, "value": {"stringValue": value}}


def chat_span(
    number: int,
    messages: list[tuple[str, str]],
    *,
    session: str = "s",
    at: float | None = None,
    lasts: float = 0.05,
    answer: str = "",
    tokens: tuple[int, int] = (100, 20),
    model: str = "gpt-4o-mini",
) -> dict[str, Any]:
    """A chat span; `messages` are (role, text), `at` its start in seconds (default: one call every second)."""
    start = START_NS + round((number if at is None else at) * SECOND)
    parts = [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in messages]
    output = [{"role": "assistant", "parts": [{"type": "text", "content": answer or f"answer {number}"}]}]
    return {
        "traceId": f"{abs(hash_of(session)):032x}",
        "spanId": f"{hash_of(session, number):016x}",
        "name": f"chat {model}",
        "kind": 3,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + round(lasts * SECOND)),
        "attributes": [
            attribute("gen_ai.operation.name", "chat"),
            attribute("gen_ai.provider.name", "openai"),
            attribute("gen_ai.request.model", model),
            attribute("session.id", session),
            attribute("gen_ai.usage.input_tokens", tokens[0]),
            attribute("gen_ai.usage.output_tokens", tokens[1]),
            attribute("gen_ai.input.messages", json.dumps(parts)),
            attribute("gen_ai.output.messages", json.dumps(output)),
        ],
    }


def hash_of(session: str, number: int = 0) -> int:
    """A number for ids, the same in every run, never 0."""
    return (int.from_bytes(session.encode()[:5], "big") << 16) + number + 1


def request(*spans: dict[str, Any]) -> dict[str, Any]:
    """An export request."""
    resource = {"attributes": [attribute("service.name", "recorded")]}
    return {
        "resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "test"}, "spans": list(spans)}]}]
    }


def repeater(calls: int, session: str = "s") -> list[dict[str, Any]]:
    """The requests of an agent that asks the same question again and again."""
    asked = [("user", "What is the weather in Tokyo?")]
    return [request(chat_span(n, asked, session=session)) for n in range(calls)]


def healthy(calls: int, session: str = "h") -> list[dict[str, Any]]:
    """The requests of an agent that asks something else each time."""
    topics = ["tides", "moss", "clocks", "rope", "salt", "bees", "chalk", "owls"]
    return [request(chat_span(n, [("user", f"Tell me about {topics[n]}.")], session=session)) for n in range(calls)]


def write_lines(path: Path, requests: Iterable[dict[str, Any] | str]) -> Path:
    """Write JSON lines, gzipped if the name says so; strings go in as they are."""
    lines = [r if isinstance(r, str) else json.dumps(r) for r in requests]
    data = "".join(line + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
