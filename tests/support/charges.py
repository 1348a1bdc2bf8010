"""Charges on paper, and a scope that takes them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from spanfuse_processor.core.scopes.stage import ScopeOutcome, ScopeStage
from spanfuse_processor.core.scopes.state import ScopeState
from spanfuse_schemas import Charge, Policy
from spanfuse_schemas.charge import Told, hashed_name
from tests.support.agents import SECOND, START_NS, policy

_offsets = itertools.count()


def names(*found: object) -> tuple[int, ...]:
    """Names as a charge has them."""
    return tuple(hashed_name(str(name)) for name in found)


def charge(scope: str = "agent:a", *, at: float = 0, calls: int = 1, **fields: Any) -> Charge:
    """A charge whose last call started and ended `at` seconds."""
    at_ns = START_NS + round(at * SECOND)
    made = {"source": "test", "offset": next(_offsets), "cost_nano_usd": 0, "at_ns": at_ns, "started_ns": at_ns}
    return Charge(**{"scope": scope, "calls": calls, **made, **fields})


def told(calls: int = 0, *, at: float = 0, since: float | None = None, source: str = "g", **fields: Any) -> Told:
    """What a Guard has told of the time `since` (default: 5 s before) to `at`, seconds; each report with the next number."""
    until_ns, since_ns = (START_NS + round(s * SECOND) for s in (at, at - 5 if since is None else since))
    made = {"source": source, "seq": next(_offsets) + 1, "since_ns": since_ns, "until_ns": until_ns}
    return Told(**{**made, "calls": calls, **fields})


class Scope:
    """One scope under one policy."""

    def __init__(self, key: str = "agent:a", under: Policy | None = None) -> None:
        self.state = ScopeState(key)
        self.stage = ScopeStage(under or policy())

    def take(self, charges: Charge | Iterable[Charge]) -> ScopeOutcome:
        """Apply charges."""
        return self.stage.process([charges] if isinstance(charges, Charge) else charges, lambda _: self.state)

    def fired(self, charges: Charge | Iterable[Charge]) -> list[str]:
        """The rules that spoke."""
        return [d.rule for d in self.take(charges).detections]
