"""Breakers, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.text import Text

from spanfuse_processor.cli.columns import Column, lay_out, prose
from spanfuse_processor.cli.options import printable
from spanfuse_processor.cli.sessions_text import effect_text
from spanfuse_processor.cli.words import ago, ends, moment, until

Row = dict[str, Any]

_LIST: Final = (
    Column("KEY", least=46, middle=True),
    Column("BREAKER"),
    Column("RULE", least=12),
    Column("SINCE", right=True, spare=2),
    Column("UNTIL", right=True, spare=1),
)
_HISTORY: Final = (
    Column("WHEN"),
    Column("EPOCH", right=True, spare=1),
    Column("STATE"),
    Column("ACTION"),
    Column("MODE"),
    Column("RULE", least=10),
)


def listed(rows: Sequence[Row], width: int, *, more: bool = False) -> Iterator[Text]:
    """A table of what stands."""
    if not rows:
        yield Text("Nothing stands against anybody.")
        return
    cells = [
        [row["key"], effect_text(row), row.get("rule", ""), ago(row["issued_at_ns"]), until(row.get("expires_at_ns"))]
        for row in rows
    ]
    yield from lay_out(_LIST, cells, width)
    if more:
        yield Text(f"There are more than these {len(rows)}: --limit N.", "dim")


def stands(decision: Row, width: int) -> Iterator[Text]:
    """A decision in full: who, what, why, until when."""
    yield Text(printable(decision["key"]), "bold").append("  ").append_text(effect_text(decision))
    yield from prose(f"{decision.get('rule', '')}: {decision.get('message', '')}".strip(": "), width, 2)
    if decision["state"] == "open":
        yield Text(f"  until {ends(decision.get('expires_at_ns'))}")


def release(key: str) -> Text:
    """The way out of it."""
    return Text(printable(f"  release it with: spanfuse reset {key}"))


def history(found: Row, width: int) -> Iterator[Text]:
    """What was decided about a key."""
    if found["decision"] is not None:
        yield from stands(found["decision"], width)
        yield release(found["key"])
    else:
        yield Text(printable(found["key"]), "bold").append("  ").append_text(effect_text(None))
    if not found["history"]:
        yield Text("  Nothing was ever decided about it.")
        return
    yield Text()
    cells = [
        [
            moment(one["issued_at_ns"]),
            str(one.get("epoch", 0)),
            one["state"].replace("_", "-"),
            "reset" if one.get("reset") else one.get("action", "allow"),
            one.get("mode", "observe"),
            one.get("rule", ""),
        ]
        for one in found["history"]
    ]
    yield from lay_out(_HISTORY, cells, width, 2)
