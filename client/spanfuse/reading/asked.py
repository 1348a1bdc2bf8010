"""What the Guard is shown of a request: the arguments of `Guard.call`, read from the body of each API of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from spanfuse.reading.parts import role_of
from spanfuse.steering.nudges import with_nudge

if TYPE_CHECKING:
    from spanfuse.reading.earlier import Earlier

Kind = Literal["chat", "responses", "messages", "completions", "embeddings"]
Body = Mapping[str, Any]

CONVERSATION: Final[dict[Kind, str]] = {
    "chat": "messages", "responses": "input", "messages": "messages", "completions": "prompt",
}  # fmt: skip
"""Where a request has what is said to the model."""


def asked(kind: Kind, body: Body, earlier: Earlier | None = None) -> dict[str, Any]:
    """Arguments of `Guard.call`.

    Args:
        kind: the API.
        body: its JSON; what is missing, or of another type than it should be, is left out.
        earlier: knows what a request to Responses refers to.
    """
    model = body.get("model")
    shown = {"model": model if isinstance(model, str) else "", **_OF[kind](body)}
    if kind == "responses" and earlier is not None and (before := earlier.before(body)):
        said = shown.pop("prompt", None)
        given = shown.get("messages") if said is None else [{"role": "user", "content": said}]
        shown["messages"] = [*before, *given] if isinstance(given, list) else before
    return shown


def nudged(kind: Kind, body: Body, text: str) -> Body:
    """A copy of the body with a text of the user at the end of its conversation, but before a beginning of the answer that the
    model is to continue, or at the end of its prompt; the body itself where there is neither."""
    place = CONVERSATION.get(kind, "")
    before = body.get(place)
    if kind == "completions":  # several prompts are several calls
        return {**body, place: with_nudge(before, text)} if isinstance(before, str) else body
    if kind == "responses" and isinstance(before, str):
        before = [{"role": "user", "content": before}]
    if not isinstance(before, list):
        return body
    end = len(before) - (kind == "messages" and bool(before) and role_of(before[-1]) == "assistant")
    return {**body, place: [*with_nudge(before[:end], text), *before[end:]]}


def _chat(body: Body) -> dict[str, Any]:
    most = body.get("max_completion_tokens") or body.get("max_tokens")
    return {"messages": body.get("messages"), "tools": body.get("tools"), "max_output_tokens": _whole(most)}


def _responses(body: Body) -> dict[str, Any]:
    given = body.get("input")
    return {
        "prompt" if isinstance(given, str) else "messages": given,
        "system": body.get("instructions"),
        "tools": body.get("tools"),
        "max_output_tokens": _whole(body.get("max_output_tokens")),
    }


def _messages(body: Body) -> dict[str, Any]:
    return {
        "messages": body.get("messages"),
        "system": body.get("system"),
        "tools": body.get("tools"),
        "max_output_tokens": _whole(body.get("max_tokens")),
    }


def _completions(body: Body) -> dict[str, Any]:
    most = _whole(body.get("max_tokens"))
    return {"prompt": body.get("prompt"), "max_output_tokens": most, "operation": "text_completion"}


def _embeddings(body: Body) -> dict[str, Any]:
    return {"prompt": body.get("input"), "max_output_tokens": 0, "operation": "embeddings"}


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


_OF: Final[dict[Kind, Callable[[Body], dict[str, Any]]]] = {
    "chat": _chat,
    "responses": _responses,
    "messages": _messages,
    "completions": _completions,
    "embeddings": _embeddings,
}
