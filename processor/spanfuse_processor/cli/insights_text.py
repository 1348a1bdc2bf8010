"""All that is known of an agent, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.text import Text

from spanfuse_processor.cli.columns import Column, lay_out, pairs, prose
from spanfuse_processor.cli.fleet_text import guarded
from spanfuse_processor.cli.options import printable
from spanfuse_processor.cli.sessions_text import effect_text
from spanfuse_processor.cli.words import ago, count, folded, share, short, spark
from spanfuse_schemas.budget import dollars

Row = dict[str, Any]

MAX_RULES: Final = 6
"""Rules shown."""
BARS: Final = 30
"""Bars of a line."""

_USUAL: Final = (
    Column("USUAL SESSION"),
    Column("HALF", right=True),
    Column("95 OF 100", right=True),
    Column("LIMIT TO SET"),
)
_RULES: Final = (
    Column("RULE"),
    Column("FIRED", right=True),
    Column("FOR A BLOCK", right=True),
    Column("LAST", right=True),
)
_BLOCKS: Final = (
    Column("ASKED FOR A BLOCK", least=24, middle=True),
    Column("RULE"),
    Column("MODE"),
    Column("AGO", right=True),
)


def told(found: Row, width: int) -> Iterator[Text]:
    """The agent: sums, what is usual, rules, blocks."""
    row = found["agent"]
    yield Text(printable(f"agent:{row['agent']}"), "bold").append("  ").append_text(effect_text(found["decision"]))
    yield from pairs(list(_sums(row)) + list(_bars(found["minutes"])), width)
    if stands := found["decision"]:
        yield from prose(f"{stands.get('rule', '')}: {stands.get('message', '')}", width, 2, "red")
    yield from _usual(row.get("usual") or {}, width)
    if found["rules"]:
        yield Text()
        cells = [
            [one["rule"], f"{one['detections']:,}", f"{one['blocks']:,}", ago(one["last_ns"])]
            for one in found["rules"][:MAX_RULES]
        ]
        yield from lay_out(_RULES, cells, width, 2)
    if found["blocks"]:
        yield Text()
        blocks = [[f"session:{one['session']}", one["rule"], one["mode"], ago(one["at_ns"])] for one in found["blocks"]]
        yield from lay_out(_BLOCKS, blocks, width, 2)


def _sums(row: Row) -> Iterator[tuple[str, str]]:
    failed = f"{row['failures']:,} failed ({share(row['failures'], row['calls'])})"
    yield "work", f"{count(row['calls'], 'call')} in {count(row['sessions'], 'session')} · {failed}"
    yield "spend", f"{dollars(row['cost_nano_usd'])} · {dollars(row['cost_nano_usd_per_call'])} a call"
    yield "tokens", f"{short(row['input_tokens'])} in · {short(row['output_tokens'])} out"
    stopped = f" · {count(row['trips'], 'session')} stopped" if row.get("trips") else ""
    yield "loops", f"{row['loops']:,} · {row['loops_per_1000_calls']:.1f} per 1,000 calls{stopped}"
    covered = row.get("coverage") or {}
    yield (
        "guarded",
        f"{guarded(row)} of {count(covered['seen'], 'call')}" if guarded(row) else "no Guard tells of any call",
    )
    yield "last", f"{ago(row['last_ns'])} ago" if row["last_ns"] else ""


def _bars(minutes: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """What came together by the minute, as bars."""
    for name, field in (("calls", "calls"), ("cost", "cost_nano_usd"), ("blocks", "blocks")):
        total = sum(row[field] for row in minutes)
        said = dollars(total) if field == "cost_nano_usd" else f"{total:,}"
        if total:
            yield name, f"{spark(folded([row[field] for row in minutes], BARS))}  {said} in {len(minutes)} minutes"


def _usual(usual: Row, width: int) -> Iterator[Text]:
    if not usual.get("sessions"):
        return
    steps, budget = usual.get("recommended_max_steps"), usual.get("recommended_budget_usd")
    cells = [
        [
            "calls",
            f"{usual['calls_p50']:,}",
            f"{usual['calls_p95']:,}",
            f"max_steps: {steps}" if steps else "too few sessions",
        ],
        [
            "cost",
            dollars(usual["cost_nano_usd_p50"]),
            dollars(usual["cost_nano_usd_p95"]),
            f"budget_usd: {budget:g}" if budget else "",
        ],
    ]
    yield Text()
    yield from lay_out(_USUAL, cells, width, 2)
