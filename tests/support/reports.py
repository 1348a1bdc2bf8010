"""Reports of Guards as the client writes them."""

from __future__ import annotations

import itertools
from typing import Any

from spanfuse.emission.report_record import request_of

_numbers = itertools.count(1)


def report(calls: int = 0, *, until_ns: int, agent: str = "recorded", team: str = "", **fields: Any) -> bytes:
    """An ExportLogsServiceRequest with one report, of the five seconds before `until_ns`."""
    made: dict[str, Any] = {
        "source": "g",
        "seq": next(_numbers),
        "since_ns": until_ns - 5 * 10**9,
        "until_ns": until_ns,
        "calls": [{"agent": agent, "team": team, "calls": calls}] if calls else [],
        "state": "ready",
    }
    return request_of({**made, **fields})
