"""Batches of calls as they are on the wire, and how they are cut by session without decoding them: most of what a replay of
packed calls costs is decoding, and that is done where the calls are applied.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import chain
from typing import Final

from pydantic import ValidationError

from spanfuse_processor.errors import DecodeError
from spanfuse_schemas import Alias, Call, CallBatch
from spanfuse_schemas.guard_report import GuardReport
from spanfuse_schemas.topics import partition_of

LANES: Final = 16
"""Parts into which sessions are put. As many processes can be at work, and what comes of it does not depend on how many are."""

Home = Callable[[str], int]
"""Session → its lane."""

_SECTIONS: Final = tuple(f'"{name}"'.encode() for name in ("v", *CallBatch.model_fields))
_BEGIN: Final = re.compile(rb"\s*\{\s*(?:\}|" + b"|".join(_SECTIONS) + rb")")
_BEFORE, _BETWEEN, _AFTER = b'{"calls":[{"', b'},{"', b"}]}"
"""What stands around calls as this library writes them, where a batch holds nothing else. No call has objects in a row, so that
between two of them is all between calls; what looks like it, at the end of some string, is found by what follows."""
_FIRST: Final = (b'trace_id":"', b'kind":"tool","trace_id":"')
_SESSION: Final = b'"session":"'


def is_packed(data: bytes) -> bool:
    """Whether a message or a line is a batch of calls, and no request of OTLP."""
    return _BEGIN.match(data) is not None


@lru_cache(maxsize=65_536)
def lane_of(session: str) -> int:
    """The lane of a session about which nothing else is known."""
    return partition_of(session, LANES)


def unpack(data: bytes) -> CallBatch:
    """Decode a batch.

    Raises:
        DecodeError: it is none.
    """
    try:
        batch: CallBatch = CallBatch.from_json(data)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise DecodeError(f"no batch of calls: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    return batch


def cut(data: bytes, home: Home) -> dict[int, bytes] | None:
    """A batch by lanes, in bytes; none where it is not written as this library does, or holds more than calls."""
    if not data.startswith(_BEFORE) or not data.endswith(_AFTER):
        return None
    lanes: dict[int, list[bytes]] = {}
    homes: dict[bytes, list[bytes]] = {}
    for call in data[len(_BEFORE) : -len(_AFTER)].split(_BETWEEN):
        begin = call.find(_SESSION) + len(_SESSION)
        session = call[begin : call.find(b'"', begin)]
        calls = homes.get(session)
        if calls is None:
            if begin < len(_SESSION) or b"\\" in session:
                return None
            calls = homes[session] = lanes.setdefault(home(session.decode()), [])
        if not call.startswith(_FIRST):
            return None
        calls.append(call)
    return {lane: _BEFORE + _BETWEEN.join(calls) + _AFTER for lane, calls in lanes.items()}


def count(data: bytes) -> int:
    """Number of calls of a batch that was cut."""
    return data.count(b'"trace_id":"')


def pack(
    calls: Iterable[Call], aliases: Iterable[Alias], reports: Iterable[GuardReport], home: Home
) -> dict[int, bytes]:
    """What a batch holds by lanes, as bytes. Orders of operators are left out, and what live hosts have moved: a replay moves
    by itself."""
    parts: defaultdict[int, tuple[list[Call], list[Alias], list[GuardReport]]] = defaultdict(lambda: ([], [], []))
    for call in calls:
        parts[home(call.session)][0].append(call)
    for alias in aliases:
        parts[home(alias.session)][1].append(alias)
    for report in reports:
        parts[lane_of(report.source)][2].append(report)
    return {
        lane: CallBatch.made(calls=tuple(found), aliases=tuple(known), reports=tuple(told)).to_json()
        for lane, (found, known, told) in parts.items()
    }


def joined(pieces: Iterable[bytes]) -> bytes:
    """What came as one batch and was apart meanwhile, its calls in the order of their ends."""
    batches = [unpack(data) for data in pieces]
    calls = sorted(chain.from_iterable(b.calls for b in batches), key=lambda c: (c.end_ns, c.start_ns, c.span_id))
    aliases = chain.from_iterable(batch.aliases for batch in batches)
    reports = chain.from_iterable(batch.reports for batch in batches)
    return CallBatch.made(calls=tuple(calls), aliases=tuple(aliases), reports=tuple(reports)).to_json()
