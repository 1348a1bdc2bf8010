"""Messages that were flattened into attributes: `llm.input_messages.0.message.role` and the like."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

_MAX_DEPTH: Final = 12
_MAX_KEYS: Final = 16_384
"""Keys whose paths are remembered: nearly every span has those of the span before it."""
_MAX_KEY_CHARS: Final = 256
"""Longer keys are no path of a message, characters."""


def unflatten(attributes: dict[str, Any], prefix: str) -> list[Any]:
    """The list whose leaves are the attributes `prefix` + `<index>.<path>`."""
    root: dict[str, Any] = {}
    size = len(prefix)
    for key, value in attributes.items():
        if key.startswith(prefix) and len(key) <= _MAX_KEY_CHARS:
            way, last = _path(key, size)
            _put(root, way, last, value)
    found = _lists(root)
    return found if isinstance(found, list) else []


@lru_cache(maxsize=_MAX_KEYS)
def _path(key: str, begin: int) -> tuple[tuple[str, ...], str]:
    """The way to a leaf, and its name there."""
    *way, last = key[begin:].split(".", _MAX_DEPTH)
    return tuple(way), last


def _put(node: dict[str, Any], way: tuple[str, ...], last: str, value: Any) -> None:
    for part in way:
        inner = node.get(part)
        if inner is None:
            inner = node[part] = {}
        elif type(inner) is not dict:
            return
        node = inner
    node.setdefault(last, value)


def _lists(node: dict[str, Any]) -> Any:
    """Dicts whose keys are all numbers become lists, in the order of the numbers."""
    for key, value in node.items():
        if type(value) is dict and value:
            node[key] = _lists(value)
    if next(iter(node), "").isdecimal() and all(key.isdecimal() and len(key) < 10 for key in node):
        return [node[key] for key in sorted(node, key=int)]
    return node
