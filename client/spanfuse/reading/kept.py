"""What is kept of a tool call's arguments, computed once: what a call asks for comes back as what the next one answers, and in
the span of the tool's execution."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from spanfuse.reading.texts import cut_json, print_of, tool_arguments
from spanfuse_schemas import Fingerprint
from spanfuse_schemas.canonical import to_json
from spanfuse_schemas.fingerprint import exact_hash
from spanfuse_schemas.wording import epoch, fields_of, meaning, wording

_REMEMBERED: Final[dict[tuple[str, str, int, int], Kept]] = {}
_MAX_REMEMBERED: Final = 4_096
"""Arguments remembered, by their hash: a few hundred bytes each, and nothing of what they say."""


class Kept(NamedTuple):
    """As the fields of `Action`."""

    print: Fingerprint
    wording: str
    fields: str
    meaning: str


def kept_of(tool: str, given: Any) -> Kept:
    """What is kept of a tool call.

    Args:
        given: its arguments as they stand in the call: an object, or its JSON text.
    """
    try:
        raw = given if isinstance(given, str) else to_json(given)
    except ValueError:
        return _kept(tool, tool_arguments(given))
    key = (tool, exact_hash(raw), len(raw) if isinstance(given, str) else -len(raw), epoch())
    found = _REMEMBERED.get(key)
    if found is None:
        found = _kept(tool, tool_arguments(given))
        if len(_REMEMBERED) >= _MAX_REMEMBERED:
            _REMEMBERED.clear()  # one atomic step: other threads may be reading
        _REMEMBERED[key] = found
    return found


def _kept(tool: str, arguments: Any) -> Kept:
    return Kept(_print(arguments), wording(arguments), fields_of(arguments), meaning(tool, arguments))


def _print(arguments: Any) -> Fingerprint:
    if isinstance(arguments, str) and cut_json(arguments):
        return Fingerprint(size=len(arguments))
    return print_of({} if arguments is None or arguments == "" else arguments)
