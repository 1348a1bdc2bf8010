"""Two policies on the same traffic: what changes from one to the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from spanfuse_processor.hosts.replay.report import Report, SessionReport
from spanfuse_processor.hosts.replay.totals import BY_RULE, by_rule, percentile, totals

BY_AGENT: Final = {
    "sessions": "sessions that it began",
    "blocked_sessions": "of them, those that would have been stopped",
    "saved_calls": "model calls that those would have been saved",
    "saved_nano_usd": "money that those would have been saved, nano-dollars",
}
"""Keys of an entry of `by_agent`, and what each counts."""
SPEED: Final = {
    "time_to_detection_s_p50": "median time to detection of the sessions that were stopped, seconds",
    "calls_to_detection_p50": "the same in model calls",
}
"""Keys of an entry of `by_rule` and `by_agent` beside its counts; none: no such session knows."""

Entries = dict[str, dict[str, Any]]


def diff(old: Report, new: Report) -> dict[str, Any]:
    """What changes.

    Args:
        old: the policy to compare with.
        new: the policy that is tried.
    """
    was, now = old.sessions, new.sessions
    shared = [(was[name], now[name]) for name in now if name in was]
    return {
        "totals": {"old": totals(was.values()), "new": totals(now.values())},
        "by_rule": _beside(_rules(old), _rules(new), BY_RULE),
        "by_agent": _beside(_agents(old), _agents(new), BY_AGENT),
        "stopped_by_new_only": [_stop(n) for o, n in shared if o.blocked_at is None and n.blocked_at is not None],
        "stopped_by_old_only": [_stop(o) for o, n in shared if o.blocked_at is not None and n.blocked_at is None],
        "stopped_elsewhere": [
            {"session": n.session, "old": _stop(o), "new": _stop(n)}
            for o, n in shared
            if None not in (o.blocked_at, n.blocked_at) and o.blocked_at != n.blocked_at
        ],
    }


def _rules(report: Report) -> Entries:
    stopped: defaultdict[str, list[SessionReport]] = defaultdict(list)
    for session in report.sessions.values():
        if session.blocked_at is not None:
            stopped[session.rule].append(session)
    found = by_rule(report.sessions.values(), report.scopes)
    return {rule: {**entry, **_speed(stopped[rule])} for rule, entry in found.items()}


def _agents(report: Report) -> Entries:
    of_agent: defaultdict[str, list[SessionReport]] = defaultdict(list)
    for session in report.sessions.values():
        of_agent[session.agent].append(session)
    return {agent: _agent(sessions) for agent, sessions in of_agent.items()}


def _agent(sessions: list[SessionReport]) -> dict[str, Any]:
    stopped = [session for session in sessions if session.blocked_at is not None]
    return {
        "sessions": len(sessions),
        "blocked_sessions": len(stopped),
        "saved_calls": sum(session.saved_calls for session in stopped),
        "saved_nano_usd": sum(session.saved_nano_usd for session in stopped),
        **_speed(stopped),
    }


def _speed(stopped: Iterable[SessionReport]) -> dict[str, Any]:
    stopped = list(stopped)
    seconds = [s.time_to_detection_s for s in stopped if s.time_to_detection_s is not None]
    calls = [s.calls_to_detection for s in stopped if s.calls_to_detection is not None]
    return dict(zip(SPEED, (percentile(seconds, 50), percentile(calls, 50)), strict=True))


def _beside(old: Entries, new: Entries, counts: Mapping[str, str]) -> Entries:
    nothing = dict.fromkeys(counts, 0) | dict.fromkeys(SPEED)
    return {name: {"old": old.get(name, nothing), "new": new.get(name, nothing)} for name in sorted({*old, *new})}


def _stop(session: SessionReport) -> dict[str, Any]:
    names = (
        "session", "agent", "calls", "blocked_at", "rule", "saved_calls", "saved_nano_usd", "time_to_detection_s",
        "calls_to_detection",
    )  # fmt: skip
    return {name: getattr(session, name) for name in names}
