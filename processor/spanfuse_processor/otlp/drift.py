"""The drift sketch of a model call: numbers that tell whether the call followed what a tool brought, or left the topic.

Two things are told, each from the messages of the one call and without keeping any of them:

- *led*: the call's tool calls use something specific (an address, an id, an amount, a name) that stands in an instruction
  to the model within a tool result (`instructions`), and nowhere in what the user or the system said, nor in what else the
  tools brought;
- *turned*: how much of a new user turn is found in the first user turn and in the one before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from spanfuse.parts import CALL_TYPES, RESULT_TYPES, body_of, content_of, mapping_of, parts_of, role_of
from spanfuse.texts import tool_arguments
from spanfuse_processor.otlp.instructions import Passage, folded, passages
from spanfuse_schemas.call import Drift

MAX_RESULTS: Final = 8
"""Tool results looked at, from the newest."""
MAX_MESSAGES: Final = 32
"""Messages among which they are looked for, the newest."""
MAX_ARGUMENT_CHARS: Final = 256
"""Longer arguments are content (a mail that quotes a page, a file), not what the call acts on."""
MIN_NAME_CHARS: Final = 6
"""Shorter arguments of several words stand in any text."""
MAX_ARGUMENTS: Final = 256
"""Arguments looked at."""
TURN_CHARS: Final = 512
"""Of a user turn only so much is compared, characters: its beginning says what it is about."""
MAX_DEPTH: Final = 12
"""Levels of a value that are looked into."""

_NAMES: Final = frozenset(
    {
        "type",
        "role",
        "id",
        "call_id",
        "tool_call_id",
        "tool_use_id",
        "toolCallId",
        "name",
        "tool_name",
        "toolName",
        "status",
    }
)
"""Keys of a part whose values say what it is, not what is in it."""
_PLAIN_KEYS: Final = ("content", "response", "text")
_PLAIN_ROLES: Final = frozenset({"system", "user", "assistant", "tool"})
_TOKEN: Final = re.compile(r"[^\W_][\w.@+-]{2,}[^\W_]")
_SPECIFIC: Final = re.compile(r"[\d@._]")

_FOUND: Final[dict[tuple[int, int], tuple[Passage, ...]]] = {}
"""Passages by hash and length of the text: a tool result comes again with every later call of its session."""
_MAX_FOUND: Final = 8_192


def sketch(messages: Sequence[Any], reply: Iterable[Any] | None, system: Any = None) -> Drift | None:
    """The sketch of one call.

    Args:
        messages: its input messages, the whole history.
        reply: its output messages; none: unknown.
        system: instructions of the system that are kept apart from the messages.

    Returns:
        None where there is nothing to tell, which is nearly always.
    """
    led = _led(messages, reply, system) if reply else {}
    turned = _turned(messages)
    return Drift(**led, **turned) if led or turned else None


def _led(messages: Sequence[Any], reply: Iterable[Any], system: Any) -> dict[str, int]:
    arguments = _arguments(reply)
    if not arguments:
        return {}
    results = _results(messages)
    told = [_passages(result) for result in results]
    if not any(told):
        return {}
    inside: list[tuple[str, int]] = []
    outside = [folded("\n".join(_said(messages, system)), whole=True)]
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


def _arguments(reply: Iterable[Any]) -> list[str]:
    """The short arguments of the tool calls."""
    found: list[str] = []
    for call in (call for item in reply for call in _calls(mapping_of(item))):
        found += (text for text in _leaves(_function(call)) if len(text) <= MAX_ARGUMENT_CHARS)
    return found[:MAX_ARGUMENTS]


def _calls(item: Mapping[str, Any]) -> list[Any]:
    """The tool calls of an assistant message."""
    body, extra = body_of(item), item.get("tool_calls")
    parts = [part for part in parts_of(body) if part["type"] in CALL_TYPES] if isinstance(body, (list, tuple)) else []
    more = extra if isinstance(extra, (list, tuple)) else [item["function_call"]] if item.get("function_call") else []
    return [*parts, *more]


def _function(call: Any) -> Any:
    """The part of a tool call that has the arguments."""
    function = call.get("function") if isinstance(call, Mapping) else None
    return function if isinstance(function, Mapping) else call


def _results(messages: Sequence[Any]) -> list[str]:
    """The newest tool results, as text."""
    found: list[str] = []
    for i in range(len(messages) - 1, max(-1, len(messages) - 1 - MAX_MESSAGES), -1):
        role = _role(messages[i])
        if role != "assistant" and role != "system":
            found += map(_plain, _result_parts(messages, i, role))
            if len(found) >= MAX_RESULTS:
                break
    return found[:MAX_RESULTS]


def _plain(part: Mapping[str, Any]) -> str:
    """The text of a result, as it stands."""
    for key in _PLAIN_KEYS:
        found = part.get(key)
        if type(found) is str:
            return found
    return "\n".join(_leaves(part, parse=False))


def _result_parts(messages: Sequence[Any], i: int, role: str) -> list[Any]:
    item = mapping_of(messages[i])
    body = item.get("parts") or item.get("content")
    whole = role == "tool" or _observes(messages, i)
    if type(body) is list:
        parts = [part for part in body if type(part) is dict and (whole or part.get("type") in RESULT_TYPES)]
        if parts:
            return parts
    return [item] if whole else []


def _observes(messages: Sequence[Any], i: int) -> bool:
    """Whether a message answers tool calls: then it is what they brought, whatever role its framework gives it."""
    return i > 0 and _role(messages[i - 1]) == "assistant" and _acts(mapping_of(messages[i - 1]))


def _acts(item: Mapping[str, Any]) -> bool:
    """Whether an assistant message calls tools."""
    body = item.get("parts") or item.get("content")
    if type(body) is list and any(type(part) is dict and part.get("type") in CALL_TYPES for part in body):
        return True
    return bool(item.get("tool_calls") or item.get("function_call") or item.get("type") in CALL_TYPES)


def _role(item: Any) -> Any:
    """As `role_of`, which takes five times as long, and every message of a history is asked."""
    role = item.get("role") if type(item) is dict else None
    return role if role in _PLAIN_ROLES else role_of(item)


def _leaves(value: Any, depth: int = 0, *, parse: bool = True) -> Iterator[str]:
    """The texts of a value, those of JSON within it too if told to `parse`, but for names and ids of the part itself."""
    if isinstance(value, str):
        parsed = tool_arguments(value) if parse and value.startswith(("{", "[")) else value
        if isinstance(parsed, str):
            yield parsed
        elif depth < MAX_DEPTH:
            yield from _leaves(parsed, depth + 1)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if depth < MAX_DEPTH and (depth or key not in _NAMES):
                yield from _leaves(inner, depth + 1, parse=parse)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            if depth < MAX_DEPTH:
                yield from _leaves(inner, depth + 1, parse=parse)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)


def _said(messages: Sequence[Any], system: Any) -> Iterator[str]:
    """What the user and the system said; and what the model told the user, who then spoke: a "go ahead" means that."""
    yield from _leaves(system)
    for i, item in enumerate(messages):
        role = _role(item)
        if role == "system":
            yield _text(item)
        elif role == "user" and not _observes(messages, i):
            yield _text(item)
            if i and _role(messages[i - 1]) == "assistant":
                yield _text(messages[i - 1])


def _text(item: Any) -> str:
    """The text of a message."""
    body = body_of(mapping_of(item))
    if type(body) is list and len(body) == 1 and type(body[0]) is dict and body[0].get("type") == "text":
        return _plain(body[0])
    content = content_of(body)
    return content if isinstance(content, str) else ""


def _turned(messages: Sequence[Any]) -> dict[str, int]:
    """How a new user turn, which must be the last message, relates to the first one and the one before it."""
    if len(messages) < 3 or _role(messages[-1]) != "user" or _observes(messages, len(messages) - 1):
        return {}
    turns = [item for item in messages if _role(item) == "user"]
    new = _text(turns[-1])[:TURN_CHARS]
    if len(turns) < 2 or not new:
        return {}
    shingles = _trigrams(new)
    return {
        "turn": len(turns),
        "chars": len(new),
        "anchor": _contained(shingles, _trigrams(_text(turns[0])[:TURN_CHARS])),
        "recent": _contained(shingles, _trigrams(_text(turns[-2])[:TURN_CHARS])),
    }


@lru_cache(maxsize=64)
def _trigrams(text: str) -> frozenset[tuple[str, str, str]]:
    """A text's trigrams, in lower case and with white space folded."""
    text = " ".join(text.lower().split())
    return frozenset(zip(text, text[1:], text[2:], strict=False))


def _contained(new: frozenset[tuple[str, str, str]], known: frozenset[tuple[str, str, str]]) -> int:
    """How much of what is new is known, thousandths."""
    return round(1000 * len(new & known) / len(new)) if new else 0
