"""What a host measures of its own work, added up once per batch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final

from spanfuse_processor.core.pipeline import Outcome
from spanfuse_processor.telemetry.catalogue import (
    BATCH,
    CALLS,
    COST,
    DEAD_LETTERS,
    DECISIONS,
    DELAY,
    DETECTIONS,
    STEP,
    TOKENS,
)
from spanfuse_processor.telemetry.tallies import Tallies
from spanfuse_processor.telemetry.traces import Traces
from spanfuse_schemas import Call, Decision, Detection

_Who = tuple[str, str, str, str, str]
"""Kind, agent, team, model, and where the cost comes from."""
_NOTHING: Final = (0, 0, 0, 0, 0, 0, 0)
_CLASSES: Final = ("input", "cache_read", "cache_write", "output", "reasoning")
NANO: Final = 1e9


class Recorder:
    """Adds up; within the event loop of the host, and never raises.

    Args:
        tallies: where to.
        traces: spans of the work; default: none are made.
    """

    def __init__(self, tallies: Tallies | None = None, traces: Traces | None = None) -> None:
        self.tallies, self.traces = tallies or Tallies(), traces or Traces()
        of = self.tallies
        self._calls, self._tokens, self._cost = of.counter(CALLS), of.counter(TOKENS), of.counter(COST)
        self._detections, self._decisions = of.counter(DETECTIONS), of.counter(DECISIONS)
        self._letters = of.counter(DEAD_LETTERS)
        self._delay, self._batch, self._step = of.histogram(DELAY), of.histogram(BATCH), of.histogram(STEP)

    def counted(self, outcome: Outcome) -> None:
        """The calls of a batch that has been applied."""
        sums: dict[_Who, list[int]] = {}
        _add(sums, outcome.steps, 1)
        if outcome.completed:  # they had counted before
            _add(sums, outcome.completed, -1)
        if outcome.more:
            _add(sums, outcome.more, 1, calls=0)
        for (kind, agent, team, model, source), (calls, *tokens, cost) in sums.items():
            if calls:
                self._calls.add((kind, agent, team, model), calls)
            if cost:
                self._cost.add((agent, team, model, source), cost / NANO)
            for name, n in zip(_CLASSES, _apart(tokens), strict=True):
                if n:
                    self._tokens.add((name, agent, model), n)
        now_ns = time.time_ns()
        if outcome.steps:
            self._delay.record(("counted",), [max(0, now_ns - call.end_ns) / NANO for call in outcome.steps])

    def found(self, decisions: Iterable[Decision], detections: Iterable[Detection]) -> None:
        """What was decided and detected."""
        for decision in decisions:
            scope = decision.key.partition(":")[0]
            self._decisions.add((decision.rule, decision.state, decision.action, scope))
        for detection in detections:
            action = "shadow" if detection.mode == "shadow" else detection.action
            self._detections.add((detection.rule, action, detection.agent))

    def published(self, decisions: Iterable[Decision]) -> None:
        """Decisions to which the calls of a batch have led are with Guards, or on their way."""
        now_ns = time.time_ns()
        self._delay.record(
            ("published",), [max(0, now_ns - one.issued_at_ns) / NANO for one in decisions if one.state == "open"]
        )

    def step(self, stage: str, began_s: float, calls: Sequence[Call] = ()) -> None:
        """A piece of work is done.

        Args:
            stage: `ingest`, `detect`, `combine`.
            began_s: when it began, by `time.perf_counter`.
            calls: those that were applied together.
        """
        self._step.record((stage,), (time.perf_counter() - began_s,))
        if calls:
            self._batch.record((), (float(len(calls)),))

    def dead_letter(self, reason: str) -> None:
        """A request or message was put aside: `undecodable`, `unreadable`, `unapplicable` or `foreign`."""
        self._letters.add((reason,))


def _add(sums: dict[_Who, list[int]], some: Iterable[Call], sign: int, calls: int = 1) -> None:
    for call in some:
        who = (call.kind, call.agent, call.team, call.model, call.cost_source)
        found = sums.get(who)
        if found is None:
            found = sums[who] = [*_NOTHING]
        found[0] += sign * calls
        if call.kind == "llm":
            tokens = call.tokens
            found[1] += sign * tokens.input
            found[2] += sign * tokens.cache_read
            found[3] += sign * tokens.cache_write
            found[4] += sign * tokens.output
            found[5] += sign * tokens.reasoning
            found[6] += sign * call.cost_nano_usd


def _apart(tokens: Sequence[int]) -> tuple[int, ...]:
    """Tokens by class, those that are part of others taken from them."""
    inputs, read, written, outputs, reasoning = tokens
    return max(0, inputs - read - written), read, written, max(0, outputs - reasoning), reasoning
