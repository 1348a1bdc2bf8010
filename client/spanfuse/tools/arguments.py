"""What a tool is called with, as rules look at it: read once, and never taken for less than it says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

MAX_JSON_CHARS: Final = 1_000_000
"""Longest JSON text that is read, characters."""
MAX_PARTS: Final = 10_000
"""Most values in the arguments that are looked at."""
ANYWHERE: Final = "*"
"""The path of every text in the arguments."""
MISSING: Final = object()
"""Stands for a field that is not there, or holds nothing."""


class UnreadableError(ValueError):
    """The arguments, or a value in them, cannot be judged. It never says what they are."""


class Arguments:
    """The arguments of one call of a tool.

    Args:
        given: an object, or its JSON text, or a plain text.
    """

    __slots__ = ("_given", "_value")

    def __init__(self, given: Any) -> None:
        self._given = given
        self._value: Any = MISSING

    @property
    def value(self) -> Any:
        """What they are, JSON text read: a mapping; else what was given.

        Raises:
            UnreadableError: they are too long, or name a field twice, which two readers understand in two ways.
        """
        if self._value is MISSING:
            self._value = _read(self._given)
        return self._value

    def at(self, path: str) -> list[Any]:
        """The scalars at a path, those of lists one by one; `MISSING` for each field that is not there.

        Raises:
            UnreadableError: something else is there.
        """
        if path == ANYWHERE:
            return list(_scalars(self.value))
        found: list[Any] = []
        for value in _at(self.value, path):
            found += _scalars(value) if isinstance(value, (list, tuple)) else [_scalar(value)]
        return found


def _read(given: Any) -> Any:
    if isinstance(given, (str, bytes, bytearray)):
        return _parsed(given if isinstance(given, str) else bytes(given).decode("utf-8", "replace"))
    if hasattr(given, "model_dump"):
        return given.model_dump()
    return {} if given is None else given


def _parsed(text: str) -> Any:
    if len(text) > MAX_JSON_CHARS:
        raise UnreadableError(f"arguments of more than {MAX_JSON_CHARS} characters")
    if not text.strip():
        return {}
    try:
        return json.loads(text, object_pairs_hook=_once)
    except UnreadableError:
        raise
    except (ValueError, RecursionError):
        return text  # a tool that takes one text


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise UnreadableError("a field that stands there twice")
    return found


def _at(value: Any, path: str) -> list[Any]:
    """The values that a path leads to; a list between is gone through element by element, unless its place is given."""
    if isinstance(value, Mapping):
        if path in value:
            return [value[path]]
        head, dot, rest = path.partition(".")
        return _at(value[head], rest) if dot and head in value else [MISSING]
    if isinstance(value, (list, tuple)):
        head, dot, rest = path.partition(".")
        if head.isdecimal():
            found = value[int(head)] if int(head) < len(value) else MISSING
            return _at(found, rest) if dot and found is not MISSING else [found]
        return [found for inner in value for found in _at(inner, path)]
    if value is None:
        return [MISSING]
    raise UnreadableError(f"{type(value).__name__} where an object is expected")


def _scalar(value: Any) -> Any:
    if value is None or value is MISSING:
        return MISSING
    if isinstance(value, (str, int, float)):  # a bool is an int
        return value
    raise UnreadableError(f"{type(value).__name__} where a text or number is expected")


def _scalars(value: Any) -> Iterator[Any]:
    """Every text and number within a value, however deep."""
    todo = [value]
    for item in todo:  # it grows while it is walked
        if isinstance(item, Mapping):
            todo += item.values()
        elif isinstance(item, (list, tuple)):
            todo += item
        elif item is not None:
            yield _scalar(item)
        if len(todo) > MAX_PARTS:
            raise UnreadableError(f"arguments of more than {MAX_PARTS} values")
