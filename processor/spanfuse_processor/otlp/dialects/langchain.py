"""What a model of LangChain said and what a tool brought are messages, which each instrumentation serialises in its own way."""

from __future__ import annotations

from typing import Final

from spanfuse_processor.otlp.values import JsonKey

REPLY: Final = "generations.0.0.message.kwargs."
"""Where the first reply of a run of a model is, as `dumpd` writes it."""
_WITHIN: Final = ("", "data.", "kwargs.")
"""Plain, as `messages_to_dict` writes it, and as `dumpd` does."""


def tool_message(attribute: str, *above: str, field: str = "content") -> tuple[JsonKey, ...]:
    """Keys of a field of the message.

    Args:
        attribute: where it is.
        above: fields that hold it; none: the attribute does.
    """
    at = [f"{path}." for path in above] or [""]
    return tuple(
        JsonKey(attribute, path + within + field, beside=f"{path}{within}tool_call_id")
        for path in at
        for within in _WITHIN
    )
