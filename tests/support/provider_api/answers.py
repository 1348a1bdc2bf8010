"""Which API answers in which form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.support.provider_api.anthropic_messages import message, message_events
from tests.support.provider_api.openai_chat import chat, chat_events, embeddings, text, text_events
from tests.support.provider_api.openai_responses import response, response_events
from tests.support.provider_api.reply import CREATED, Reply

Body = Callable[[dict[str, Any], Reply, int], dict[str, Any]]
Events = Callable[[dict[str, Any], Reply, int], Iterator[bytes]]


def _counted(asked: dict[str, Any], reply: Reply, number: int) -> dict[str, Any]:
    return {"input_tokens": reply.input_tokens}


def _models(asked: dict[str, Any], reply: Reply, number: int) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": "fake-1", "object": "model", "created": CREATED, "owned_by": "tests"}]}


BODIES: dict[str, Body] = {
    "/v1/chat/completions": chat,
    "/v1/completions": text,
    "/v1/embeddings": embeddings,
    "/v1/messages": message,
    "/v1/messages/count_tokens": _counted,
    "/v1/models": _models,
    "/v1/responses": response,
}
"""The answer of each API: (the body that was sent, the reply, a number) → the body."""

EVENTS: dict[str, Events] = {
    "/v1/chat/completions": chat_events,
    "/v1/completions": text_events,
    "/v1/messages": message_events,
    "/v1/responses": response_events,
}
"""The stream of those that can."""
