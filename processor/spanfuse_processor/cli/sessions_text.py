"""Sessions, and one with its timeline, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.text import Text

from spanfuse_processor.cli.columns import Column, lay_out, pairs, prose
from spanfuse_processor.cli.options import printable
from spanfuse_processor.cli.timeline import drawn, legend, letter
from spanfuse_processor.cli.words import EFFECTS, ago, clock, count, effect, ends, lasting, moment, short
from spanfuse_schemas.budget import dollars

Row = dict[str, Any]

LAST_STEPS: Final = 12
"""Steps shown in full at most."""
MAX_FOUND: Final = 5
"""Detections shown."""

_LIST: Final = (
    Column("SESSION", least=38, middle=True),
    Column("AGENT", least=10, middle=True),
    Column("USER", spare=6, least=8, middle=True),
    Column("TEAM", spare=7, least=8),
    Column("MODEL", spare=8, least=12),
    Column("CALLS", right=True),
    Column("TOKENS", right=True, spare=4),
    Column("COST", right=True),
    Column("BREAKER"),
    Column("RULE", spare=3),
    Column("LAST", right=True),
)
_STEPS: Final = (
    Column("STEP", right=True),
    Column(""),
    Column("AT"),
    Column("WHAT", least=16),
    Column("TOOK", right=True, spare=2),
    Column("TOKENS", right=True, spare=3),
    Column("COST", right=True),
    Column("WHAT CAME OF IT", least=16),
)


def effect_text(stands: Row | None) -> Text:
    """What happens to the next call, in its colour."""
    found = effect(stands)
    return Text(found, EFFECTS[found])


def listed(rows: Sequence[Row], width: int, *, more: bool) -> Iterator[Text]:
    """A table of sessions."""
    if not rows:
        yield Text("No session is like that.")
        return
    yield from lay_out(_LIST, [list(_cells(row)) for row in rows], width)
    if more:
        yield Text(f"There are more than these {len(rows)}: --limit N.", "dim")


def _cells(row: Row) -> Iterator[str | Text]:
    yield row["session"]
    yield row["agent"]
    yield row["user"]
    yield row["team"]
    yield row["model"]
    yield f"{row['calls']:,}"
    yield short(row["tokens"])
    yield dollars(row["cost_nano_usd"])
    yield effect_text(row)
    yield row["rule"]
    yield ago(row["last_ns"])


def told(row: Row, timeline: Row, width: int, limit: int | None) -> Iterator[Text]:
    """One session: what it came to, its steps drawn, and the last of them in full."""
    steps: list[Row] = timeline["steps"][-limit:] if limit else timeline["steps"]
    yield Text(printable(f"session:{row['session']}"), "bold").append("  ").append_text(effect_text(row))
    yield from pairs(list(_summary(row)), width)
    if steps:
        yield Text()
        yield from _drawing(row, steps, width)
    if timeline["detections"]:
        yield Text()
        yield from _found(timeline["detections"], width)


def _summary(row: Row) -> Iterator[tuple[str, str]]:
    whose = [row["agent"], row["user"] and f"user {row['user']}", row["team"] and f"team {row['team']}"]
    yield "who", " · ".join(filter(None, [*whose, row["model"]]))
    lasted = lasting((row["last_ns"] - row["first_ns"]) / 1e9)
    yield "work", f"{count(row['calls'], 'model call')} · {count(row['tools'], 'tool execution')} in {lasted}"
    yield "spend", f"{dollars(row['cost_nano_usd'])} · {row['tokens']:,} tokens"
    yield "last", f"{moment(row['last_ns'])}, {ago(row['last_ns'])} ago"
    asked = f" · {row['would_block']} asked for a block that nobody enforces" if row["would_block"] else ""
    yield "rules", count(row["detections"], "detection") + asked
    yield from (("budget", _account(account)) for account in row.get("budgets", ()))
    if row["rule"]:
        yield "stands", f"{row['rule']}: {row['message']}"
        yield "until", ends(row["expires_at_ns"])


def _account(account: Row) -> str:
    amount = dollars if account["unit"] == "usd" else "{:,}".format
    return f"{account['budget']}: {amount(account['spent'])} of {amount(account['limit'])} ({account['used']:.0%})"


def _drawing(row: Row, steps: Sequence[Row], width: int) -> Iterator[Text]:
    total = max(len(steps), row["calls"] + row["tools"])
    first = total - len(steps) + 1
    yield Text(f"Steps {first} to {total}" if first > 1 else f"{count(total, 'step')}", "bold")
    yield from drawn(steps, width, first)
    yield from prose(legend(steps), width, 2, "dim")
    last = steps[-LAST_STEPS:]
    yield Text()
    yield from lay_out(_STEPS, [_step(total - len(last) + n + 1, step) for n, step in enumerate(last)], width, 2)


def _step(number: int, step: Row) -> list[str | Text]:
    tools = ", ".join(step["tools"])
    what = tools if step["kind"] == "tool" else f"{step['model']} → {tools}" if tools else step["model"]
    came = [step["decision"], *step["rules"], step["error"]]
    return [
        str(number),
        letter(step),
        clock(step["at_ns"]),
        what or step["kind"],
        f"{step['lasted_ns'] / 1e9:.1f}s" if step["lasted_ns"] else "",
        f"{step['tokens']:,}" if step["tokens"] else "",
        dollars(step["cost_nano_usd"]) if step["cost_nano_usd"] else "",
        Text(printable(" · ".join(filter(None, came))), "red" if step["error"] or step["decision"] == "block" else ""),
    ]


def _found(detections: Sequence[Row], width: int) -> Iterator[Text]:
    yield Text(f"{count(len(detections), 'detection')}, newest first", "bold")
    for one in detections[:MAX_FOUND]:
        meant = f"{one['action']}, {one['mode']}" if one["mode"] == "shadow" else one["action"]
        yield from prose(f"{clock(one['at_ns'])} {one['rule']} ({meant}): {one['message']}", width, 2)
    if len(detections) > MAX_FOUND:
        yield Text(f"  … {len(detections) - MAX_FOUND} more are in --format json.", "dim")
