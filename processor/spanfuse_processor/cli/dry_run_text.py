"""What another policy would change, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.text import Text

from spanfuse_processor.cli.columns import Column, lay_out
from spanfuse_processor.cli.words import count, moment
from spanfuse_schemas.budget import dollars

Row = dict[str, Any]

MAX_SESSIONS: Final = 10
"""Sessions shown of each kind."""
SUMS: Final = {
    "sessions_blocked": "sessions stopped",
    "saved_calls": "calls saved",
    "saved_nano_usd": "money saved",
}
"""Field of the totals → what it is called."""

_TOTALS: Final = (Column(""), Column("NOW", right=True), Column("WITH IT", right=True))
_RULES: Final = (
    Column("RULE FIRES OTHERWISE"),
    Column("NOW", right=True),
    Column("WITH IT", right=True),
)
_STOPS: Final = (
    Column("SESSION", least=28, middle=True),
    Column("AT CALL", right=True),
    Column("RULE"),
    Column("SAVES", right=True),
)


def told(found: Row, width: int) -> Iterator[Text]:
    """Both policies side by side, then the sessions for which they differ."""
    cut = "" if found.get("complete", True) else ", not all of that time"
    if not found["calls"]:
        yield Text("No recent call is kept that it could be tried on.")
        return
    yield Text(f"{count(found['calls'], 'call')} from {moment(found['from_ns'])} to {moment(found['to_ns'])}{cut}")
    yield Text()
    old, new = found["totals"].get("old", {}), found["totals"].get("new", {})
    rows = [[said, _sum(field, old.get(field, 0)), _sum(field, new.get(field, 0))] for field, said in SUMS.items()]
    yield from lay_out(_TOTALS, rows, width, 2)
    rules = [[rule, *map(str, pair)] for rule, both in found["by_rule"].items() if len(set(pair := _fired(both))) > 1]
    if rules:
        yield Text()
        yield from lay_out(_RULES, rules, width, 2)
    yield from _stops("Would be stopped, and are not now", found["stopped_by_new_only"], width)
    yield from _stops("Are stopped now, and would not be", found["stopped_by_old_only"], width)
    yield from _stops("Would be stopped elsewhere", [_moved(one) for one in found["stopped_elsewhere"]], width)
    if not (rules or any(found[name] for name in ("stopped_by_new_only", "stopped_by_old_only", "stopped_elsewhere"))):
        yield Text()
        yield Text("It would have changed nothing.")


def _sum(field: str, value: int) -> str:
    return dollars(value) if field.endswith("_nano_usd") else f"{value:,}"


def _fired(both: Row) -> tuple[int, int]:
    return both.get("old", {}).get("detections", 0), both.get("new", {}).get("detections", 0)


def _moved(one: Row) -> Row:
    """A session that is stopped at another call, as a stop."""
    old, new = one.get("old") or {}, one.get("new") or {}
    return {**new, "session": one["session"], "at": f"{old.get('blocked_at')} → {new.get('blocked_at')}"}


def _stops(title: str, stops: Sequence[Row], width: int) -> Iterator[Text]:
    if not stops:
        return
    yield Text()
    yield Text(f"{title}: {len(stops):,}", "bold")
    rows = [
        [
            one["session"],
            one.get("at") or str(one.get("blocked_at", "")),
            one.get("rule", ""),
            dollars(one.get("saved_nano_usd", 0)),
        ]
        for one in stops[:MAX_SESSIONS]
    ]
    yield from lay_out(_STOPS, rows, width, 2)
    if len(stops) > MAX_SESSIONS:
        yield Text(f"  … {len(stops) - MAX_SESSIONS} more are in --format json.", "dim")
