"""What models answer in these tests."""

from __future__ import annotations

from typing import Any, Final

from spanfuse.calls.model_call import ModelCall
from spanfuse.reading.messages import read_messages
from tests.support.fake_provider import Asked, Reply

SEARCH: Final = Reply(text="", tools=(("search", {"query": "spanfuse"}),))
"""Calls the tool `search`: as the only answer, an agent that does the same again and again."""
DONE: Final = Reply("All is well.")
NUDGE: Final = "You have searched for that. Answer now."


def last_said(asked: Asked) -> Any:
    """The last message of a request to OpenAI's chat or Responses, or to Anthropic."""
    messages = asked.body.get("messages") or asked.body["input"]
    last = messages[-1]
    content = last.get("content", last.get("output"))
    return content if isinstance(content, str) else content[-1].get("text", content[-1])


def read_alike(call: ModelCall, asked: Asked) -> bool:
    """Whether the Guard reads of a framework's messages what it reads of the request that the provider got: what is new, and
    what that answers."""
    shown = read_messages(call.messages or ())
    sent = read_messages(asked.body.get("messages") or asked.body["input"])
    return shown.input == sent.input and shown.answers == sent.answers
