"""The report of `replay` for people: what it rests on, what it comes to, and which sessions would have been stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from spanfuse_processor.cli.options import printable
from spanfuse_processor.cli.tables import PipedConsole, table
from spanfuse_processor.hosts.replay.report import COVERAGE, Report
from spanfuse_schemas.budget import dollars

MAX_ROWS: Final = 20
"""Sessions of each list that are shown; the JSON report has all."""

SHARE_OF: Final = {
    "with_session": "calls",
    "with_usage": "llm_calls",
    "with_price": "llm_calls",
    "with_content": "calls",
}
"""Counts of the coverage that are a part of another."""


def show(report: dict[str, Any], counted: Report) -> None:
    """Print a report.

    Args:
        report: the report as it is written, with `diff` where two policies are compared.
        counted: what it was made of.
    """
    console = PipedConsole()
    for part in _parts(report, counted):
        console.print(part)


def _parts(report: dict[str, Any], counted: Report) -> Iterator[RenderableType]:
    yield _coverage(counted)
    yield _totals(report["totals"])
    yield from _rules(report)
    yield from _stopped("Sessions that would have been stopped, most money first", report["sessions"])
    if "diff" in report:
        yield from _diff(report["diff"])
    totals = report["totals"]
    yield f"{totals['sessions_blocked']} of {totals['sessions']} sessions would have been stopped."


def _coverage(report: Report) -> Table:
    counts, made = report.coverage, table("Coverage", ">count", ">share", "of what")
    for name, meaning in COVERAGE.items():
        made.add_row(str(counts[name]), share(counts[name], counts[SHARE_OF.get(name, "")]), meaning)
    for reason, number in sorted(report.ingest.items()):
        made.add_row(str(number), "", f"counted by ingest as: {reason}")
    made.add_row(str(report.undecodable), "", "undecodable requests and files")
    return made


def share(part: int, whole: int) -> str:
    """A part in percent, rounded down so that 100 % are all; empty of nothing."""
    return f"{100 * part // whole} %" if whole else ""


def _totals(totals: dict[str, Any]) -> Table:
    made = table("Totals", ">value", ">share", "of what")
    for name, whole, meaning in (
        ("sessions", "", "sessions"),
        ("sessions_with_detections", "sessions", "of which a rule said something"),
        ("sessions_blocked", "sessions", "that would have been stopped"),
        ("calls", "", "model calls"),
        ("saved_calls", "calls", "from the first refused one to the session's end"),
    ):
        made.add_row(str(totals[name]), share(totals[name], totals.get(whole, 0)), meaning)
    spent, saved = totals["cost_nano_usd"], totals["saved_nano_usd"]
    made.add_row(dollars(spent), "", "spent")
    made.add_row(dollars(saved), share(saved, spent), "by calls from the first refused one on")
    if totals["time_to_detection_s_p50"] is not None:
        made.add_row(f"{totals['time_to_detection_s_p50']:g} s", "", "from beginning to detection, median")
        made.add_row(f"{totals['time_to_detection_s_p95']:g} s", "", "from beginning to detection, 95th percentile")
    return made


def _rules(report: dict[str, Any]) -> Iterator[RenderableType]:
    found = report["by_rule"]
    counts = ("sessions", "warn", "nudge", "block", "shadow")
    said = table("Detections by rule", "=rule", *(f">{name}" for name in counts))
    stops = table("Stops by rule, and what they would have saved", "=rule", ">sessions", ">calls", ">money")
    for rule, entry in found.items():
        said.add_row(rule, *(str(entry[name]) for name in counts))
        if entry["blocked_sessions"]:
            numbers = (str(entry[name]) for name in ("blocked_sessions", "saved_calls"))
            stops.add_row(rule, *numbers, dollars(entry["saved_nano_usd"]))
    yield from (made for made in (said, stops) if made.row_count)
    for rule, entry in found.items():
        if entry["shadow_sessions"]:
            yield Text(f"In shadow, would have asked for a block: {rule}, in sessions: {entry['shadow_sessions']}.\n")
    off = [rule for rule, mode in report["modes"].items() if mode == "off"]
    if off:
        yield Text(f"Off in general: {', '.join(off)}.\n")


def _stopped(title: str, sessions: Sequence[dict[str, Any]]) -> Iterator[RenderableType]:
    """The sessions that would have been stopped, those first that would have saved most."""
    stopped = sorted((s for s in sessions if s["blocked_at"] is not None), key=_saved, reverse=True)
    if not stopped:
        return
    made = table(title, "session", "=rule", ">refused", ">calls", ">saved")
    for s in stopped[:MAX_ROWS]:
        numbers = (f"#{s['blocked_at']}", str(s["calls"]))
        made.add_row(Text(printable(s["session"])), s["rule"], *numbers, dollars(s["saved_nano_usd"]))
    yield made
    more = len(stopped) - MAX_ROWS
    left = f"… and {more} more; all are in --report FILE. " if more > 0 else ""
    yield Text(f"{left}Calls are numbered from 0.\n")


def _saved(session: dict[str, Any]) -> tuple[int, int]:
    return session["saved_nano_usd"], session["saved_calls"]


def _diff(diff: dict[str, Any]) -> Iterator[RenderableType]:
    old, new = diff["totals"]["old"], diff["totals"]["new"]
    made = table("What --config changes against --compare", "what", ">--compare", ">--config")
    for name, what, shown in _SUMS:
        made.add_row(what, shown(old[name]), shown(new[name]))
    for rule, beside in diff["by_rule"].items():
        for name, what, shown in _OF_RULE:
            if beside["old"][name] != beside["new"][name]:
                made.add_row(f"{rule}: {what}", shown(beside["old"][name]), shown(beside["new"][name]))
    yield made
    yield from _agents(diff["by_agent"])
    yield from _stopped("Newly stopped: with --config, and not with --compare", diff["stopped_by_new_only"])
    yield from _stopped("No longer stopped: with --compare, and not with --config", diff["stopped_by_old_only"])
    if diff["stopped_elsewhere"]:
        yield Text(f"Sessions that both stop, at another call: {len(diff['stopped_elsewhere'])}.\n")


def _agents(by_agent: dict[str, Any]) -> Iterator[RenderableType]:
    """The agents for which something changes, those first whose money changes most."""
    changed = [(agent, both) for agent, both in by_agent.items() if both["old"] != both["new"]]
    if not changed:
        return
    changed.sort(key=lambda one: -abs(one[1]["new"]["saved_nano_usd"] - one[1]["old"]["saved_nano_usd"]))
    made = table("Agents, from --compare to --config", "agent", ">stopped", ">saved", ">time to detection")
    for agent, both in changed[:MAX_ROWS]:
        cells = [
            " → ".join(shown(both[side][name]) for side in ("old", "new"))
            for name, shown in (("blocked_sessions", str), ("saved_nano_usd", dollars), (_MEDIAN, _seconds))
        ]
        made.add_row(Text(printable(agent) or "(no name)"), *cells)
    yield made


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:g} s"


_MEDIAN: Final = "time_to_detection_s_p50"
_SUMS: Final = (
    ("sessions_blocked", "sessions stopped", str),
    ("saved_calls", "calls saved", str),
    ("saved_nano_usd", "money saved", dollars),
    (_MEDIAN, "time to detection, median", _seconds),
)
_OF_RULE: Final = (
    ("detections", "detections", str),
    ("blocked_sessions", "sessions stopped", str),
    (_MEDIAN, "time to detection, median", _seconds),
)
"""Field, what it is called, and how it is shown."""
