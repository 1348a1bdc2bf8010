"""One report of the lanes of a replay, as if they had been one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from spanfuse_processor.hosts.replay.report import Report, SessionReport
from spanfuse_processor.hosts.replay.scopes import Scopes, stopped
from spanfuse_processor.hosts.replay.sessions import LaneReport, Row, Seen, Take
from spanfuse_processor.hosts.replay.totals import modes
from spanfuse_schemas import Policy


def report_of(
    parts: Sequence[LaneReport], policy: Policy, scopes: Scopes, rows: Iterable[Iterable[Row | Take]]
) -> Report:
    """One report.

    Args:
        parts: what the lanes come to.
        scopes: after all their charges.
        rows: of each lane; asked for only where a scope was blocked.
    """
    report = _of_sessions(parts, policy)
    if scopes.refuses:
        for stop in chain.from_iterable(stopped(of_lane, scopes) for of_lane in rows):
            report.sessions[stop.session].stops_as(stop)
    _add_scopes(report, parts, scopes)
    return report


def _of_sessions(parts: Sequence[LaneReport], policy: Policy) -> Report:
    """The report of all sessions, in the order of their first call."""
    report = Report(modes=modes(policy))
    found = ((part.places[name], session) for part in parts for name, session in part.sessions.items())
    report.sessions = {session.session: session for _, session in sorted(found, key=lambda one: one[0])}
    for part in parts:
        report.rules.update(part.rules)
        report.coverage.update(part.coverage)
        for seen, calls in part.seen.items():
            _cover(report.coverage, seen, calls)
    broken = {ordinal: why for part in parts for ordinal, why in part.broken.items()}
    for ordinal, why in sorted(broken.items()):
        report.fail(f"batch {ordinal}", why)
    return report


def _add_scopes(report: Report, parts: Sequence[LaneReport], scopes: Scopes) -> None:
    """Add what the sessions add up to."""
    report.scopes = scopes.found
    report.rules.update(scopes.rules)
    report.agents, report.models = scopes.agents(), scopes.models()
    report.budgets = scopes.accounts(chain.from_iterable(part.budgets for part in parts))
    taken = {origin: into for part in parts for origin, into in part.taken.items()}
    for detection in scopes.of_sessions:
        name = detection.session
        while name not in report.sessions and name in taken:
            name = taken[name]
        report.sessions.setdefault(name, SessionReport(name)).found_by_others(detection)


def _cover(coverage: Counter[str], seen: Seen, calls: int) -> None:
    kind, session_source, content, cost_source, is_estimated, is_empty = seen
    coverage["calls"] += calls
    coverage["with_session"] += (session_source != "trace") * calls
    coverage["with_content"] += (content != "structure") * calls
    if kind == "tool":
        coverage["tool_calls"] += calls
        return
    coverage["llm_calls"] += calls
    coverage["with_usage"] += (not is_estimated and not is_empty) * calls
    coverage["with_price"] += (cost_source in ("reported", "computed")) * calls
