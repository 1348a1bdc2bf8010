"""Packed calls of agents at work, some of them in loops, made as fast as they can be."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from spanfuse_schemas import Call, CallBatch, Fingerprint, Tokens
from spanfuse_schemas.topics import partition_of

PACKED: Final = 200
"""Calls of a message, as ingest packs them of large exports."""
LENGTH: Final = 50
"""Calls of a session."""
AT_WORK: Final = 500
"""Sessions at a time."""
LOOPS: Final = 50
"""Of so many sessions one runs into a loop half-way."""
_START_NS: Final = 1_750_000_000 * 10**9
_EVERY_NS: Final = 10**6
_AGENTS: Final = 2**60
"""Ids of spans of agents, which are none of a call."""


def messages(count: int, partitions: int) -> Iterator[tuple[int, bytes]]:
    """Partition and value of the messages of so many calls."""
    groups: dict[int, list[Call]] = {}
    for i in range(count):
        call = _call(i)
        partition = partition_of(call.session, partitions)
        group = groups.setdefault(partition, [])
        group.append(call)
        if len(group) == PACKED:
            yield partition, CallBatch.made(calls=tuple(groups.pop(partition))).to_json()
    for partition, group in groups.items():
        yield partition, CallBatch.made(calls=tuple(group)).to_json()


def _call(i: int) -> Call:
    """Each session makes a call every half a second; when it is over, another one takes its place."""
    slot, turn = i % AT_WORK, i // AT_WORK
    number = slot + turn // LENGTH * AT_WORK
    step = turn % LENGTH
    seen = min(step, LENGTH // 2) if number % LOOPS == 0 else step
    start_ns = _START_NS + i * _EVERY_NS
    return Call.made(
        trace_id=f"{number + 1:032x}",
        span_id=f"{i + 1:016x}",
        parent_span_id=f"{_AGENTS + number:016x}",
        start_ns=start_ns,
        end_ns=start_ns + 10**8,
        session=f"session-{number:06}",
        agent=f"agent-{number % 10}",
        user=f"user-{number % 50}",
        team=f"team-{number % 5}",
        operation="chat",
        provider="openai",
        model="gpt-4o-mini",
        tokens=Tokens.made(input=1200 + step, output=50, cache_read=1024),
        cost_nano_usd=123_456,
        cost_source="computed",
        finish_reason="tool_calls",
        content="content",
        history=2 * step + 2,
        input=_print(number, seen, "r"),
        answers=_print(number, seen, "a"),
        answered=("search",),
        called=("search",),
        action=_print(number, seen + 1, "a"),
    )


def _print(number: int, step: int, of: str) -> Fingerprint:
    digest = hashlib.blake2b(f"{number}/{step}/{of}".encode(), digest_size=8).hexdigest()
    return Fingerprint(f"{digest}{digest}:200")
