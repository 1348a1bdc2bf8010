"""Calls of which only the time, the tokens and the money matter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Call, Detection, Policy, Tokens
from tests.support.agents import llm, policy

MINUTE_S = 60
ON_THE_MINUTE_S = 20
"""Seconds after the support's start at which a clock minute begins."""


def call(at: float, *, input: int = 1000, output: int = 100, usd: float = 0, **fields: Any) -> Call:
    """A model call `at` seconds into a clock minute, of which no messages are known."""
    fields = {"content": "structure", "tokens": Tokens(input=input, output=output), **fields}
    return llm([], at=ON_THE_MINUTE_S + at, cost=round(usd * 1e9), **fields)


def even(count: int, minute: int, **fields: Any) -> Iterator[Call]:
    """So many calls, spread evenly over a clock minute."""
    return (call(minute * MINUTE_S + i * MINUTE_S / count, lasts=0.01, **fields) for i in range(count))


def told(calls: Iterable[Call], rules: Policy | None = None, *, by: str) -> list[Detection]:
    """What a rule, or a family of rules, says of a session."""
    pipeline, session = Pipeline(rules or policy()), SessionState("s")
    return [d for c in calls for d in pipeline.step(session, c).detections if d.rule.startswith(by)]
