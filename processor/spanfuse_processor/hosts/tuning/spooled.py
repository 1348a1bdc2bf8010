"""The calls of a spool one by one, and a spool of some sessions only."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final

from spanfuse_processor.hosts.replay.packed import unpack
from spanfuse_processor.hosts.replay.spool import Spool, Writer, frames
from spanfuse_schemas import Call, CallBatch

MOST: Final = 0.7
"""Share of the calls up to which it pays to read them apart."""


def calls_in(spool: Spool) -> Iterator[Call]:
    """All calls; those of a session in the order in which they came."""
    for lane in sorted(spool.lanes):
        for frame in frames(lane):
            yield from unpack(frame.data).calls


def narrowed(spool: Spool, sessions: Container[str]) -> Spool | None:
    """A spool of the calls of some sessions, to be closed by who asks for it.

    Returns:
        None where that would be most of them, or where calls turn out to be of other sessions than they were counted for.
    """
    made, kept = Spool(), 0
    with Writer(made) as writer:
        for lane in sorted(spool.lanes):
            for frame in frames(lane):
                batch = unpack(frame.data)
                calls = [call for call in batch.calls if call.session in sessions]
                kept += len(calls)
                if batch.aliases or kept > MOST * spool.calls:
                    break
                if calls:
                    writer.packed(CallBatch.made(calls=tuple(calls)).to_json())
            else:
                continue
            break
        else:
            return made
    made.close()
    return None
