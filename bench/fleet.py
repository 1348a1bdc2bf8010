"""A million sessions of one or two calls each: what a call costs at the beginning and at the end.

States are kept as hosts keep them: the latest as objects, those silent for longer as bytes, from which a session goes on when
it calls again, and the oldest not at all.
"""

from __future__ import annotations

import gc
import resource
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final

from bench.report import Figure
from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Call, Policy

SESSIONS: Final = 1_000_000
PART: Final = 100_000
"""Sessions that one figure is of."""
CHUNK: Final = 1_000
"""Calls made at once, off the clock."""
RETURN_AFTER: Final = 10_000
"""A session's second call comes when this many others have begun since."""
AGAIN: Final = 10
"""One of this many sessions makes a second call."""
LIVE: Final = 2_000
"""States held as objects."""
KEPT: Final = 20_000
"""States held as bytes."""


class States:
    """The bounded store."""

    def __init__(self) -> None:
        self._live: OrderedDict[str, SessionState] = OrderedDict()
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self.restored = 0

    def get(self, session: str) -> SessionState:
        """The state of a session, wherever it is."""
        state = self._live.get(session)
        if state is None:
            kept = self._kept.pop(session, None)
            self.restored += kept is not None
            state = self._live[session] = SessionState(session) if kept is None else SessionState.restore(kept)
            self._shrink()
        return state

    def _shrink(self) -> None:
        if len(self._live) > LIVE:
            name, oldest = self._live.popitem(last=False)
            self._kept[name] = oldest.snapshot()
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)


def run(templates: Sequence[Call]) -> Iterator[Figure]:
    """Measure.

    Args:
        templates: the first and the second call of a session.
    """
    states, pipeline, marks, peaks = States(), Pipeline(Policy(mode="enforce")), [], []
    for begin in range(0, SESSIONS, PART):
        spent = counted = 0.0
        for chunk in range(begin, begin + PART, CHUNK):
            gc.disable()  # what is made off the clock shall not call the collector either
            calls = list(_calls(templates, chunk))
            gc.enable()
            start = time.process_time()  # over minutes, wall time would be that of the neighbours too
            for call in calls:
                pipeline.step(states.get(call.session), call)
            spent += time.process_time() - start
            counted += len(calls)
        marks.append(spent / counted * 1e6)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    first, last = f"sessions 1 to {PART:,}", f"sessions {SESSIONS - PART + 1:,} to {SESSIONS:,}"
    yield Figure(f"core step and state, {first}", marks[0], "us/call")
    yield Figure(f"core step and state, {last}", marks[-1], "us/call", marks[0], "the first", "1 x")
    yield Figure(f"memory at its highest by {SESSIONS:,} sessions", peaks[-1], "MiB", peaks[0], f"by {PART:,}", "1 x")


def _calls(templates: Sequence[Call], begin: int) -> Iterator[Call]:
    for number in range(begin, begin + CHUNK):
        yield _call(templates[0], number, number)
        back = number - RETURN_AFTER
        if back >= 0 and back % AGAIN == 0:
            yield _call(templates[1], back, number)


def _call(template: Call, session: int, now: int) -> Call:
    start = template.start_ns + now * 1_000_000
    span = f"{2 * now + (session != now) + 1:016x}"
    return template.model_copy(
        update={"session": f"session-{session}", "span_id": span, "start_ns": start, "end_ns": start + 10**8}
    )
