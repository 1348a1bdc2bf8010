"""What a scripted model answers, whichever API is asked."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

CREATED = 1_764_460_800
"""When everything was made, seconds since the Unix epoch."""


@dataclass(frozen=True)
class Reply:
    """A model's answer, in the form of whichever API is asked.

    Args:
        text: what it says; a stream cuts it after each space.
        tools: tools that it calls: (name, arguments).
        input_tokens: tokens of the request, those of the cache included.
        output_tokens: tokens of the answer.
        cached: tokens of the request that came from the cache.
        reasoning: tokens of the answer that were thoughts.
        model: what answered; empty: what was asked for.
    """

    text: str = "All is well."
    tools: tuple[tuple[str, dict[str, Any]], ...] = ()
    input_tokens: int = 12
    output_tokens: int = 5
    cached: int = 0
    reasoning: int = 0
    model: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def pieces(self) -> list[str]:
        """The text as a stream delivers it."""
        return [f"{word} " for word in self.text.split(" ")[:-1]] + [self.text.split(" ")[-1]]


def sse(data: Any, event: str = "") -> bytes:
    """An event of a stream, with the empty line after it."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def model_of(asked: dict[str, Any], reply: Reply) -> str:
    """The model that answers."""
    return reply.model or str(asked.get("model", "fake-1"))
