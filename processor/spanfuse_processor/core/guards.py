"""What a Guard has told, by the scopes that it is about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from spanfuse_schemas.charge import Told
from spanfuse_schemas.guard_report import GuardReport


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
    yield "global:*", told(calls=number, refusals=report.refusals, spans_dropped=report.spans_dropped)
