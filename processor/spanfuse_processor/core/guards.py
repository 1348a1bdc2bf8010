"""What a Guard has told, by the scopes that it is about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Final

from spanfuse_schemas.charge import Told
from spanfuse_schemas.guard_report import GuardReport

COUNTED: Final = ("nudged", "probes", "denied", "errors", "unsigned", "spans_dropped")
"""Counts of a report that hosts add up."""
MAX_STATE: Final = 16
"""Longest name of a state, characters."""


def told_of(report: GuardReport) -> Iterator[tuple[str, Told]]:
    """For each agent and team that it names, and for all together."""
    calls: defaultdict[str, int] = defaultdict(int)
    for made in report.calls:
        for kind, name in (("agent", made.agent), ("team", made.team)):
            if name:
                calls[f"{kind}:{name}"] += made.calls
    told = partial(Told, source=report.source, seq=report.seq, since_ns=report.since_ns, until_ns=report.until_ns)
    for scope, number in calls.items():
        yield scope, told(calls=number)
    number = report.checks + sum(made.calls for made in report.calls)
    counts = {f"guards/{name}": n for name in COUNTED if (n := getattr(report, name))}
    yield "global:*", told(calls=number, refusals=report.refusals, counts=counts, state=report.state[:MAX_STATE])
