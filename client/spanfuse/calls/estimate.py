"""What a call will cost, before it is made: by the size of its messages, the price of its model and the most it may answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from spanfuse.ledger.book import Definitions

Price = Callable[[str, int, int], float]
"""Model, input tokens, output tokens → USD."""

CHARS_PER_TOKEN: Final = 4
"""A token is taken to be this many characters of ASCII; of other scripts each character is one."""
OUTPUT_TOKENS: Final = 4096
"""Output tokens that a call may bring where nobody says how many."""

_MAX_TOKENS: Final = 10**9
_NO_TEXT: Final = frozenset({"role", "type", "id", "tool_call_id", "tool_use_id"})
"""Keys of messages whose values cost no tokens to speak of."""
_VERSION: Final = re.compile(r"[-@:](?:v?\d[\d.:-]*|latest)$")
"""The end of a model's name that says which edition of it: `-2024-08-06`, `@20250514`, `-v2:0`, `-latest`."""
_MAX_PARTS: Final = 100_000
_MILLION: Final = 1_000_000


class Tokens(NamedTuple):
    """Tokens of a call."""

    input: int
    """Input tokens, those of the cache included."""
    output: int
    """Output tokens, those of reasoning included."""
    cache_read: int = 0
    """Part of the input that was read from the provider's cache."""
    cache_write: int = 0
    """Part of the input that was written to it."""
    reasoning: int = 0
    """Part of the output."""

    @property
    def total(self) -> int:
        """Input and output."""
        return self.input + self.output


def tokens_of(value: Any) -> int:
    """Tokens of all texts in messages, tools or a reply, rounded up. Objects with `model_dump()` are understood."""
    ascii_chars = others = 0
    todo = [value]
    for item in todo:  # it grows while it is walked
        if isinstance(item, str):
            plain = len(item) if item.isascii() else len(item.encode("ascii", "ignore"))
            ascii_chars += plain
            others += len(item) - plain
        elif isinstance(item, Mapping):
            todo += [inner for key, inner in item.items() if inner and key not in _NO_TEXT]
        elif isinstance(item, (list, tuple)):
            todo += item
        elif hasattr(item, "model_dump"):
            todo.append(item.model_dump())
        if len(todo) > _MAX_PARTS:
            break
    return min(-(-ascii_chars // CHARS_PER_TOKEN) + others, _MAX_TOKENS)


def whole_tokens(value: object) -> int | None:
    """A number of tokens, None for what is none."""
    return value if type(value) is int and 0 <= value <= _MAX_TOKENS else None


@lru_cache(maxsize=1024)
def _names(model: str) -> tuple[str, ...]:
    """Under which names a model may be listed: as it is called, without its provider, and without its date or version."""
    found = [model, model.lower(), model.lower().rpartition("/")[2]]
    while (shorter := _VERSION.sub("", found[-1])) != found[-1]:
        found.append(shorter)
    return tuple(found)


def by_table(model: str, tokens: Tokens, definitions: Definitions) -> int | None:
    """Cost by the ledger's table of prices, nano-dollars, rounded up; None where the model is not in it."""
    rate = next((rate for name in _names(model) if (rate := definitions.prices.get(name))), None)
    return None if rate is None else by_rate(tokens, rate)


def by_rate(tokens: Tokens, rate: tuple[int, int]) -> int:
    """Cost by the prices of a million input and output tokens, nano-dollars, rounded up."""
    return -(-(tokens.input * rate[0] + tokens.output * rate[1]) // _MILLION)
