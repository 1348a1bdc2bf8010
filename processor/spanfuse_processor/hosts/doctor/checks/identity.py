"""Whose calls they are."""

from __future__ import annotations

from typing import Final

from spanfuse_processor.hosts.doctor.finding import Finding, Severity
from spanfuse_processor.hosts.doctor.judging import judged, several, severity_of
from spanfuse_processor.hosts.doctor.sample import Sample, Shared

MIN_CALLS: Final = 5
"""Of fewer model calls nothing is concluded from how they are spread."""


def session(s: Sample) -> Finding:
    """Where sessions come from."""
    own, inherited, none = (s.counts[f"session_{source}"] for source in ("explicit", "inherited", "trace"))
    what = f"session id: {own} calls say their own, {inherited} inherit one, {none} have none but their trace"
    if not none:
        return Finding("session", "ok", none, s.counts["calls"], what)
    traces = [trace for key, trace in s.traces.values.items() if f"trace:{key}" in s.sessions.values and trace.calls]
    single = sum(trace.calls for trace in traces) <= 1.5 * len(traces)
    severity: Severity = "problem" if single and len(traces) >= MIN_CALLS else "warn"
    means = (
        "Nearly each of these calls is a session of its own, in which no loop can be seen."
        if severity == "problem"
        else "A trace is taken for a session: a loop over several traces is not seen."
    )
    do = "Set session.id or gen_ai.conversation.id on each span, or on the span around the run; `spanfuse.session(...)` does."
    return Finding("session", severity, none, s.counts["calls"], what, means, do)


def shared_session(s: Sample) -> Finding:
    """Sessions that two conversations share."""
    users, services = (several(s.sessions.values.values(), get) for get in (_users, _services))
    number, of = max(users, services), len(s.sessions.values)
    what = f"of {of} sessions, {users} have several users and {services} several services"
    if not number:
        return Finding("shared session", "ok", 0, of, what)
    return Finding(
        "shared session",
        "problem" if users else "warn",
        number,
        of,
        what,
        "Two conversations under one id are judged as one: each may be stopped for what the other did.",
        "Make session ids unique: put the user or the service into them, or use UUIDs. Agents of several services that work "
        "on one task may share one.",
    )


def agent(s: Sample) -> Finding:
    """Whose agent it is."""
    number, of = s.counts["no_agent"], s.counts["calls"]
    return judged(
        "agent",
        severity_of(number, of, many="warn"),
        number,
        of,
        f"{number} of {of} calls name no agent and no service",
        "Rules and settings for an agent do not see them.",
        "Set gen_ai.agent.name, or service.name of the resource.",
    )


def _users(shared: Shared) -> set[str]:
    return shared.users


def _services(shared: Shared) -> set[str]:
    return shared.services
