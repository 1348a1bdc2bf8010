"""Adds a nudge to a conversation, in the form in which the conversation is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def with_nudge(messages: Any, text: str) -> Any:
    """A copy of a conversation with a text of the user at its end; the conversation itself is left as it is.

    After results of tools in a message of the user, as Anthropic has them, the text becomes part of that message, since nothing
    may come between a tool's call and its result, nor after it but in the same turn. Else it is a message of its own.

    Args:
        messages: messages of OpenAI (Chat, and the input of Responses), Anthropic or Gemini; or a text, or None.
        text: the nudge; empty: nothing is added.

    Returns:
        What is neither messages nor text is given back as it is.
    """
    if not text:
        return messages
    if isinstance(messages, str):
        return f"{messages}\n\n{text}" if messages else text
    if messages is not None and not isinstance(messages, (list, tuple)):
        return messages
    found = [*(messages or ())]
    last = found[-1] if found else None
    if isinstance(last, Mapping) and _holds_results(last):
        found[-1] = {**last, "content": [*last["content"], {"type": "text", "text": text}]}
    elif isinstance(last, Mapping) and "parts" in last:
        found.append({"role": "user", "parts": [{"text": text}]})
    else:
        found.append({"role": "user", "content": text})
    return tuple(found) if isinstance(messages, tuple) else found


def _holds_results(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    if message.get("role") != "user" or not isinstance(content, (list, tuple)):
        return False
    return any(isinstance(part, Mapping) and part.get("type") == "tool_result" for part in content)
