"""The drift sketch of a model call: numbers that tell whether the call followed what a tool brought, or left the topic.

Two things are told, each from the messages of the one call and without keeping any of them:

- *led*: the call's tool calls use something specific (an address, an id, an amount, a name) that stands in an instruction
  to the model within a tool result (`instructions`), and nowhere in what the user or the system said, nor in what else the
  tools brought;
- *turned*: how much of a new user turn is found in the first user turn and in the one before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from spanfuse.reading.instructions import Passage, folded, passages
from spanfuse.reading.parts import role_of
from spanfuse.reading.spoken import arguments_of, observes, results_of, said_in, text_of
from spanfuse_schemas.call import Drift

MIN_NAME_CHARS: Final = 6
"""Shorter arguments of several words stand in any text."""
TURN_CHARS: Final = 512
"""Of a user turn only so much is compared, characters: its beginning says what it is about."""
_TOKEN: Final = re.compile(r"[^\W_][\w.@+-]{2,}[^\W_]")
_SPECIFIC: Final = re.compile(r"[\d@._]")

_FOUND: Final[dict[tuple[int, int], tuple[Passage, ...]]] = {}
"""Passages by hash and length of the text: a tool result comes again with every later call of its session."""
_MAX_FOUND: Final = 8_192


def sketch(
    messages: Sequence[Any], reply: Iterable[Any] | None, system: Any = None, *, turns: bool = True
) -> Drift | None:
    """The sketch of one call.

    Args:
        messages: its input messages, the whole history.
        reply: its output messages; none: unknown.
        system: instructions of the system that are kept apart from the messages.
        turns: whether to measure how far a new user turn is from earlier ones, too.

    Returns:
        None where there is nothing to tell, which is nearly always.
    """
    led = _led(messages, reply, system) if reply else {}
    turned = _turned(messages) if turns else {}
    return Drift(**led, **turned) if led or turned else None


def _led(messages: Sequence[Any], reply: Iterable[Any], system: Any) -> dict[str, int]:
    arguments = arguments_of(reply)
    if not arguments:
        return {}
    results = results_of(messages)
    told = [_passages(result) for result in results]
    if not any(told):
        return {}
    inside: list[tuple[str, int]] = []
    outside = [folded("\n".join(said_in(messages, system)), whole=True)]
    for result, found in zip(results, told, strict=True):
        text, end = folded(result), 0
        for one in found:
            inside.append((text[one.start : one.end], one.marks))
            outside.append(text[end : one.start])
            end = one.end
        outside.append(text[end:])
    return _traced(arguments, inside, " ".join(outside))


def _traced(arguments: Iterable[str], inside: list[tuple[str, int]], outside: str) -> dict[str, int]:
    """What is specific in the arguments and stands in a passage, but not outside; and the passage with the most marks that
    holds some of it."""
    traced, marks, length = set(), 0, 0
    for one in {one for value in arguments for one in _specific(folded(value)) if one not in outside}:
        for text, kinds in inside:
            if one in text and re.search(rf"(?<!\w){re.escape(one)}(?!\w)", text):
                traced.add(one)
                marks, length = max((marks, length), (kinds, len(text)))
    return {"marks": marks, "passage": length, "traced": len(traced)} if traced else {}


def _specific(value: str) -> Iterable[str]:
    """The addresses, ids and numbers in an argument; one without any is a name where it has several words."""
    found = {token for token in _TOKEN.findall(value) if _SPECIFIC.search(token)}
    return found or ((value,) if " " in value and len(value) >= MIN_NAME_CHARS else ())


def _passages(text: str) -> tuple[Passage, ...]:
    key = (hash(text), len(text))
    try:
        return _FOUND[key]
    except KeyError:
        found = passages(folded(text))
    if len(_FOUND) >= _MAX_FOUND:
        _FOUND.clear()  # one atomic step: other threads may be reading
    _FOUND[key] = found
    return found


def _turned(messages: Sequence[Any]) -> dict[str, int]:
    """How a new user turn, which must be the last message, relates to the first one and the one before it."""
    if len(messages) < 3 or role_of(messages[-1]) != "user" or observes(messages, len(messages) - 1):
        return {}
    turns = [item for item in messages if role_of(item) == "user"]
    new = text_of(turns[-1])[:TURN_CHARS]
    if len(turns) < 2 or not new:
        return {}
    shingles = _trigrams(new)
    return {
        "turn": len(turns),
        "chars": len(new),
        "anchor": _contained(shingles, _trigrams(text_of(turns[0])[:TURN_CHARS])),
        "recent": _contained(shingles, _trigrams(text_of(turns[-2])[:TURN_CHARS])),
    }


@lru_cache(maxsize=64)
def _trigrams(text: str) -> frozenset[tuple[str, str, str]]:
    """A text's trigrams, in lower case and with white space folded."""
    text = " ".join(text.lower().split())
    return frozenset(zip(text, text[1:], text[2:], strict=False))


def _contained(new: frozenset[tuple[str, str, str]], known: frozenset[tuple[str, str, str]]) -> int:
    """How much of what is new is known, thousandths."""
    return round(1000 * len(new & known) / len(new)) if new else 0
