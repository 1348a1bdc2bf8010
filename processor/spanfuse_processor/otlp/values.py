"""Reading single attribute values: found under the first of some keys, cleaned, bounded."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from spanfuse.reading.texts import is_hidden
from spanfuse_processor.otlp.reprs import fields_of_repr, looks_like_fields, python_value
from spanfuse_processor.otlp.span import SpanEvent
from spanfuse_schemas.names import normal_name

MAX_TOKENS: Final = 100_000_000
"""More tokens than this in one call are an error of the instrumentation."""
MAX_COST_USD: Final = 100_000.0
"""A call that costs more than this is an error of the instrumentation, USD."""


class JsonKey(NamedTuple):
    """A field of the object in an attribute: structured, JSON, or what Python writes for one."""

    attribute: str
    field: str
    """Its name; with dots, also a path: `choices.0.finish_reason`."""
    unless: str = ""
    """Another field of the object: where that holds anything, this one is not all there is."""
    beside: str = ""
    """Another field, or path, that must hold something: it tells what the object is."""


class EventKey(NamedTuple):
    """An attribute of the first event of that name that has it."""

    event: str
    attribute: str
    path: str = ""
    """What to look at in the JSON that it holds; empty: all of it."""


class Sum(NamedTuple):
    """The sum of numbers, of which the first must be there: tokens that were told apart by class."""

    keys: tuple[str | JsonKey, ...]


Keys = tuple[str | JsonKey | EventKey | Sum, ...]
"""Where a value may be, in order."""


def load_json(text: str) -> Any:
    """Parse JSON, also with NaN or lone surrogates.

    Raises:
        ValueError: it is none, or nested too deep.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def attributes_of(keys: Keys) -> Iterator[str]:
    """The attributes in which `keys` look."""
    for key in keys:
        if isinstance(key, str):
            yield key
        elif isinstance(key, JsonKey):
            yield key.attribute
        elif isinstance(key, Sum):
            yield from attributes_of(key.keys)


def find(attributes: dict[str, Any], keys: Keys, events: Sequence[SpanEvent] = ()) -> Any:
    """The first value under `keys` that is neither empty nor hidden; `None` where there is none."""
    for key in keys:
        if isinstance(key, str):
            value = attributes.get(key)
        elif isinstance(key, JsonKey):
            if key.attribute not in attributes:
                continue
            value = _field(attributes[key.attribute], key)
        elif isinstance(key, EventKey):
            value = _of_event(events, key)
        else:
            value = _sum(attributes, key)
        if value is not None and value != "" and not is_hidden(value):
            return value
    return None


def _sum(attributes: dict[str, Any], key: Sum) -> float | None:
    found = [number(find(attributes, (one,))) for one in key.keys]
    return None if found[0] is None else sum(value for value in found if value is not None)


def _of_event(events: Sequence[SpanEvent], key: EventKey) -> Any:
    found = (event.attributes.get(key.attribute) for event in events if event.name == key.event)
    value = next((value for value in found if value is not None), None)
    return _at(_loaded(value), key.path) if key.path else value


def _loaded(value: Any) -> Any:
    try:
        return load_json(value) if isinstance(value, str) else value
    except ValueError:
        return None


def _field(value: Any, key: JsonKey) -> Any:
    if isinstance(value, str) and (value[:1] == "{" or looks_like_fields(value)):
        value = _object(value)
    if not isinstance(value, dict) or (key.unless and value.get(key.unless)):
        return None
    if key.beside and not _at(value, key.beside):
        return None
    return value[key.field] if key.field in value else _at(value, key.field)


def _at(value: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


@lru_cache(maxsize=8)
def _object(text: str) -> Any:
    """What JSON or Python holds in a text; `None` for anything else. Several keys in a row ask for the same text."""
    try:
        return load_json(text) if text[:1] == "{" else fields_of_repr(text)
    except ValueError:
        return python_value(text)


def readable(value: bytes) -> str | bytes:
    """Bytes as the text that they are: some instrumentations hand serialised JSON to the SDK as it is."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def name(attributes: dict[str, Any], keys: Keys) -> str:
    """A name or id in its one form (`spanfuse_schemas.names`): the first that is not hidden."""
    found = find(attributes, keys)
    if is_hidden(found):
        values = (find(attributes, (key,)) for key in keys)
        found = next((value for value in values if value is not None and not is_hidden(value)), None)
    return bounded(found)


def bounded(value: Any) -> str:
    """A scalar as the text of a name, in its one form; empty for anything else."""
    if isinstance(value, str):
        return normal_name(unquoted(value))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return ""
    return normal_name(str(value))


def unquoted(text: str) -> str:
    """A text that was written as JSON, as the text that it is."""
    if text[:1] != '"' or text[-1:] != '"':
        return text
    try:
        inner = load_json(text)
    except ValueError:
        return text
    return inner if isinstance(inner, str) else text


def number(value: Any) -> float | None:
    """A finite number, also out of text; `None` for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def tokens(attributes: dict[str, Any], keys: Keys, counters: Counter[str]) -> int | None:
    """A count of tokens; `None` where there is none, or none that can be (NaN, negative, absurd: counted)."""
    value = find(attributes, keys)
    if value is None:
        return None
    found = number(value)
    if found is None or not 0 <= found <= MAX_TOKENS:
        counters["tokens_invalid"] += 1
        return None
    return int(found)
