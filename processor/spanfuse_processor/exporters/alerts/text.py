"""An alert in words: who, which rule, the numbers, the money, until when, and what to do. Nothing is escaped here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, NamedTuple
from urllib.parse import quote

from spanfuse_processor.exporters.alerts.model import Alert, Notice

NANO: Final = 10**9
MAX_NAME: Final = 200
"""Characters shown of a name: it may be any text that an agent gives itself."""


class Body(NamedTuple):
    """What people read."""

    title: str
    """One line."""
    message: str
    """Why."""
    facts: tuple[tuple[str, str], ...]
    """Heading and value."""
    command: str
    """What ends it; empty: nothing has to be ended."""
    link: str
    """Where more of it is; empty: the page's address is not known."""


def body(notice: Notice, base_url: str = "") -> Body:
    """The words of a notice."""
    alert, what = notice.alert, notice.what
    said = {"firing": "", "resolved": "Resolved: ", "acknowledged": "Acknowledged: ", "test": "Test: "}[what]
    over = what == "resolved"
    return Body(
        title=line(f"{said}{alert.title}"),
        message=line(alert.message, 2_000),
        facts=tuple((name, line(value)) for name, value in _facts(alert, over) if value),
        command="" if over else line(alert.release, 1_000),
        link=link(alert, base_url),
    )


def line(text: str, most: int = 500) -> str:
    """A text on one line, of printable characters, cut."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def moment(at_ns: int) -> str:
    """A moment for people."""
    return f"{datetime.fromtimestamp(at_ns / NANO, UTC):%Y-%m-%d %H:%M:%S} UTC"


def iso(at_ns: int) -> str:
    """A moment for programs."""
    return f"{datetime.fromtimestamp(at_ns // NANO, UTC):%Y-%m-%dT%H:%M:%S}Z"


def dollars(nano: int) -> str:
    """Money for people."""
    return f"${nano / NANO:,.4f}"


def link(alert: Alert, base_url: str) -> str:
    """Where more of it is."""
    base = base_url.rstrip("/")
    if not base:
        return ""
    return f"{base}/ui/sessions/{quote(alert.session, safe='')}" if alert.session else f"{base}/ui/alerts"


def _facts(alert: Alert, over: bool) -> list[tuple[str, str]]:
    evidence = alert.evidence
    numbers = (
        f"{evidence.value:g} of {evidence.threshold:g} {evidence.unit}" if evidence.threshold or evidence.value else ""
    )
    spans = f"{evidence.first_span_id or '…'} to {evidence.last_span_id}" if evidence.last_span_id else ""
    return [
        ("Rule", alert.rule),
        ("Severity", alert.severity),
        ("About", _name(alert.key)),
        ("Agent", _name(alert.agent)),
        ("User", _name(alert.user)),
        ("Team", _name(alert.team)),
        ("Action", _action(alert)),
        ("Evidence", numbers),
        ("Limit", f"{alert.limit:g} {evidence.unit}" if alert.limit else ""),
        ("Money", dollars(alert.cost_nano_usd) if alert.cost_nano_usd else ""),
        ("Began", moment(evidence.since_ns or alert.first_ns)),
        ("Last seen", moment(alert.last_ns) if alert.last_ns > alert.first_ns else ""),
        ("Over since" if over else "Until", _until(alert, over)),
        ("Spans", spans),
        ("Trace", evidence.trace_id),
        ("Taken on by", alert.acknowledged_by),
    ]


def _action(alert: Alert) -> str:
    if alert.action == "block" and alert.mode:
        return "would be blocked: this deployment observes" if alert.mode == "observe" else "blocked"
    return {"block": "block", "nudge": "nudged", "warn": "warning"}.get(alert.action, "")


def _until(alert: Alert, over: bool) -> str:
    if over:
        return moment(alert.resolved_ns) if alert.resolved_ns else ""
    if alert.expires_at_ns:
        return moment(alert.expires_at_ns)
    return "somebody releases it" if alert.action == "block" and alert.mode == "enforce" else ""


def _name(text: str) -> str:
    return line(text, MAX_NAME)
