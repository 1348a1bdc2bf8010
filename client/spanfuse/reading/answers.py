"""What a model answered: its messages and what they took, read from the response of whichever client.

>>> answer = read(client.chat.completions.create(...))
>>> answer.input_tokens, answer.output_tokens, answer.finish_reason
(1204, 87, 'stop')

Understood are OpenAI (chat, Responses, legacy completions, embeddings), Anthropic, LiteLLM, the same as dicts, messages, and
plain text; the pieces of their streams are for `spanfuse.reading.gathered`. Nothing here raises: what is not understood has no
answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spanfuse.reading.token_usage import TokenUsage, amount, field_of


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one model call."""

    reply: list[Any] | None = None
    """Its messages as they came: of each choice, or the items of the Responses API; None: it has none, as an embedding."""
    model: str = ""
    """The model that answered, as the provider names it."""
    response_id: str = ""
    """Id of the response, as the provider gave it."""
    input_tokens: int | None = None
    """Input tokens, with those read from and written to a cache; None: not told."""
    output_tokens: int | None = None
    """Output tokens, with those of reasoning; None: not told."""
    cache_read: int = 0
    """Of the input: tokens read from a cache."""
    cache_write: int = 0
    """Of the input: tokens written to a cache."""
    reasoning: int = 0
    """Of the output: tokens of reasoning."""
    cost_usd: float | None = None
    """Its cost, USD, where the library or the gateway tells it (LiteLLM, OpenRouter); None: not told."""
    finish_reason: str = ""
    """Why it ended, in the provider's word: `stop`, `tool_calls`, `end_turn`, `completed`."""


def read(response: Any) -> Answer | None:
    """The answer in a response.

    Args:
        response: a response object or its dict, a message, messages, or a text.

    Returns:
        None for None, and for what cannot be read.
    """
    try:
        return None if response is None else _read(response)
    except Exception:  # an object of who knows which library
        return None


def replies(response: Any) -> list[Any] | None:
    """The messages of a response, as `Answer.reply`."""
    if response is None:
        return None
    if isinstance(response, str):
        return [{"role": "assistant", "content": response}]
    if isinstance(response, (list, tuple)):
        return list(response)
    if isinstance(choices := field_of(response, "choices"), (list, tuple)):
        return [field_of(choice, "message") or _said(choice) for choice in choices]
    if isinstance(output := field_of(response, "output"), (list, tuple)):
        return list(output)
    if field_of(response, "object") == "list":
        return None
    if field_of(response, "content") is None and callable(dump := getattr(response, "model_dump", None)):
        response = dump()  # of an object that says by no field what it is
        return replies(response) if "choices" in response or "output" in response else [response]
    return [response]


def _said(choice: Any) -> Any:
    """The message of a choice that is none itself: of the legacy completions."""
    text = field_of(choice, "text")
    return {"role": "assistant", "content": text} if isinstance(text, str) else choice


def _read(response: Any) -> Answer:
    reply = replies(response)
    if isinstance(response, (str, list, tuple)):
        return Answer(reply)
    usage = TokenUsage()
    usage.add(field_of(response, "usage") or field_of(response, "usage_metadata"))
    if (hidden := field_of(response, "_hidden_params")) is not None:  # where LiteLLM keeps it
        usage.cost_usd = 0.0 if field_of(hidden, "cache_hit") is True else amount(field_of(hidden, "response_cost"))
    named = field_of(response, "id") or field_of(response, "response_id")
    return answer_of(reply, field_of(response, "model"), named, usage, _ended(response))


def _ended(response: Any) -> Any:
    """Why a response ended: of chat, of Anthropic, of the Responses API."""
    if isinstance(choices := field_of(response, "choices"), (list, tuple)):
        return field_of(choices[0], "finish_reason") if choices else ""
    if stopped := field_of(response, "stop_reason"):
        return stopped
    return field_of(field_of(response, "incomplete_details"), "reason") or field_of(response, "status")


def answer_of(reply: list[Any] | None, model: Any, named: Any, usage: TokenUsage, ended: Any) -> Answer:
    """An answer of what was found, where it is of the right type.

    Args:
        named: id of the response.
        ended: why it ended.
    """
    return Answer(
        reply,
        model if isinstance(model, str) else "",
        named if isinstance(named, str) else "",
        usage.input,
        usage.output,
        usage.cache_read,
        usage.cache_write,
        usage.reasoning,
        usage.cost_usd,
        ended if isinstance(ended, str) else "",
    )
