"""Alerts, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.text import Text

from spanfuse_processor.cli.columns import Column, lay_out
from spanfuse_processor.cli.words import ago, now_ns

Row = dict[str, Any]

_LIST: Final = (
    Column("ID"),
    Column("SEVERITY"),
    Column("STATE"),
    Column("SINCE", right=True),
    Column("KEY", least=16, middle=True),
    Column("RULE", least=12),
    Column("SEEN", right=True, spare=2),
    Column("TAKEN ON", spare=1, least=8),
)
_DELIVERIES: Final = (Column("RECEIVER", least=12), Column("KIND"), Column("DELIVERED"), Column("WHY", least=20))
_COLOURS: Final = {"critical": "red", "warning": "yellow", "info": "cyan"}


def listed(rows: Sequence[Row], width: int, *, more: bool = False) -> Iterator[Text]:
    """A table of alerts."""
    if not rows:
        yield Text("There are no alerts.")
        return
    yield from lay_out(_LIST, [_cells(row) for row in rows], width)
    if more:
        yield Text(f"There are more than these {len(rows)}: --limit N.", "dim")


def _cells(row: Row) -> list[str | Text]:
    severity, firing = row.get("severity", "warning"), row.get("state", "firing") == "firing"
    snoozed = firing and (row.get("snoozed_until_ns") or 0) > now_ns()
    state = Text("snoozed", "dim") if snoozed else Text("firing", "bold") if firing else Text("resolved", "green")
    return [
        row["id"],
        Text(severity, _COLOURS.get(severity, "")),
        state,
        ago(row.get("first_ns", 0)),
        row.get("key", ""),
        row["rule"],
        f"{row.get('count', 1):,}×",
        row.get("acknowledged_by", ""),
    ]


def deliveries(rows: Sequence[Row], width: int) -> Iterator[Text]:
    """What became of a test."""
    if not rows:
        yield Text("There are no receivers.")
        return
    cells = [
        [
            one["receiver"],
            one.get("kind", ""),
            Text("yes", "green") if one["delivered"] else Text("no", "red"),
            one.get("why", ""),
        ]
        for one in rows
    ]
    yield from lay_out(_DELIVERIES, cells, width)
