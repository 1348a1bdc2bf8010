"""The tokens that a response, or a piece of a stream, says it took, in terms of OpenAI, Anthropic, LiteLLM and LangChain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_NONE: Final[Mapping[str, Any]] = {}
_INPUT_DETAILS: Final = ("prompt_tokens_details", "input_tokens_details", "input_token_details")
_OUTPUT_DETAILS: Final = ("completion_tokens_details", "output_tokens_details", "output_token_details")


def field_of(value: Any, name: str) -> Any:
    """A field of a dict or of an object; None where there is none."""
    if type(value) is dict:
        return value.get(name)
    if value is None:
        return None
    fields = getattr(value, "__dict__", _NONE)
    if name in fields:
        return fields[name]
    if (
        "__pydantic_fields__" in type(value).__dict__
    ):  # asked for what it has not, it makes an error of it, which takes long
        # Dataclasses of pydantic have neither.
        where = getattr(value, "__pydantic_private__" if name.startswith("_") else "__pydantic_extra__", None)
        return where.get(name) if where else None
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


class TokenUsage:
    """Tokens of a call, as in `Answer`; None: not told."""

    __slots__ = ("cache_read", "cache_write", "cost_usd", "input", "output", "reasoning")

    def __init__(self) -> None:
        self.input: int | None = None
        self.output: int | None = None
        self.cache_read = self.cache_write = self.reasoning = 0
        self.cost_usd: float | None = None

    def add(self, usage: Any) -> None:
        """What a usage object says. A stream may say it several times, of all so far: the most counts, since some gateways
        begin or end with zeros."""
        if usage is None:
            return
        sent = _count(usage, "prompt_tokens")
        if sent is None:
            sent, brought = _count(usage, "input_tokens"), _count(usage, "output_tokens")
            of_cache = _count(usage, "cache_read_input_tokens"), _count(usage, "cache_creation_input_tokens")
            if sent is not None:  # Anthropic counts those of the cache apart
                sent += (of_cache[0] or 0) + (of_cache[1] or 0)
        else:
            brought = _count(usage, "completion_tokens")
            brought = 0 if brought is None and sent == _count(usage, "total_tokens") else brought  # an embedding
            of_cache = None, _count(usage, "cache_creation_input_tokens")
        self._detail(usage, *of_cache)
        self.input, self.output = _most(self.input, sent), _most(self.output, brought)
        cost = field_of(usage, "cost")
        self.cost_usd = amount(cost) if cost is not None else self.cost_usd

    def _detail(self, usage: Any, read: int | None, written: int | None) -> None:
        sent, brought = _first(usage, _INPUT_DETAILS), _first(usage, _OUTPUT_DETAILS)
        if sent is not None:
            read = read or _count(sent, "cached_tokens") or _count(sent, "cache_read")
            written = written or _count(sent, "cache_write_tokens") or _count(sent, "cache_creation")
        self.cache_read, self.cache_write = read or self.cache_read, written or self.cache_write
        if brought is not None:
            self.reasoning = _count(brought, "reasoning_tokens") or _count(brought, "reasoning") or self.reasoning


def amount(value: Any) -> float | None:
    """A cost, USD; None for what is none."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _count(usage: Any, name: str) -> int | None:
    found = field_of(usage, name)
    return found if type(found) is int and found >= 0 else None


def _most(known: int | None, told: int | None) -> int | None:
    return told if known is None else known if told is None else max(known, told)


def _first(usage: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        if (found := field_of(usage, name)) is not None:
            return found
    return None
