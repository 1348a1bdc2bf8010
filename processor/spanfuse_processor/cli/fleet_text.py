"""Agents and models side by side, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.text import Text

from spanfuse_processor.cli.columns import Cell, Column, lay_out
from spanfuse_processor.cli.words import ago, share, short
from spanfuse_schemas.budget import dollars

Row = dict[str, Any]

LOOPY: Final = 10.0
"""Loops per 1,000 calls from which on they are shown in colour."""

_SUMS: Final = (
    Column("CALLS", right=True),
    Column("SESSIONS", right=True, spare=5),
    Column("COST", right=True),
    Column("PER CALL", right=True),
    Column("FAILED", right=True),
    Column("LOOPS/1000", right=True),
)
_AGENTS: Final = (
    Column("AGENT", least=20, middle=True),
    *_SUMS,
    Column("STOPPED", right=True, spare=4),
    Column("GUARDED", right=True, spare=3),
    Column("LAST", right=True, spare=6),
)
_MODELS: Final = (
    Column("MODEL", least=24, middle=True),
    *_SUMS,
    Column("TOKENS/CALL", right=True, spare=7),
    Column("LAST", right=True, spare=6),
)


def agents_table(rows: Sequence[Row], width: int) -> Iterator[Text]:
    """A table of agents."""
    if not rows:
        yield Text("No agent has made a call yet.")
        return
    cells = [[row["agent"], *_sums(row), str(row.get("trips", "")), guarded(row), ago(row["last_ns"])] for row in rows]
    yield from lay_out(_AGENTS, cells, width)


def models_table(rows: Sequence[Row], width: int) -> Iterator[Text]:
    """A table of models."""
    if not rows:
        yield Text("No model has been called yet.")
        return
    cells = [[row["model"], *_sums(row), _tokens_per_call(row), ago(row["last_ns"])] for row in rows]
    yield from lay_out(_MODELS, cells, width)


def guarded(row: Row) -> str:
    """How much of an agent's work goes through a Guard, per cent; empty where no Guard tells of any."""
    covered = row.get("coverage", {}).get("share")
    return "" if covered is None else f"{covered:.0%}"


def _sums(row: Row) -> list[Cell]:
    loops = row["loops_per_1000_calls"]
    return [
        f"{row['calls']:,}",
        f"{row['sessions']:,}",
        dollars(row["cost_nano_usd"]),
        dollars(row["cost_nano_usd_per_call"]),
        share(row["failures"], row["calls"]),
        Text(f"{loops:.1f}", "red" if loops >= LOOPY else ""),
    ]


def _tokens_per_call(row: Row) -> str:
    return short(round((row["input_tokens"] + row["output_tokens"]) / row["calls"])) if row["calls"] else ""
