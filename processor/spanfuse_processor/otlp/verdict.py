"""What became of one span, and why."""

from __future__ import annotations

from dataclasses import dataclass

from spanfuse_processor.otlp.dialects.dialect import Role
from spanfuse_processor.otlp.span import Span
from spanfuse_processor.otlp.traces import Node
from spanfuse_schemas import Call


@dataclass(slots=True)
class Verdict:
    """A span as ingest reads it."""

    span: Span
    dialect: str
    """Name of the dialect that it speaks; empty: it could not be read."""
    role: Role
    node: Node | None
    """What it says itself of session, user, team and agent; none: it could not be read."""
    counted: bool
    reason: str
    """Why it counts, or why not."""
    call: Call | None
    """The call that it became, with what spans of the same call add to it; for one that repeats another, what it would have
    been alone; none for a span that is no call."""
    session: str = ""
    """Session, its own or an ancestor's, else that of its trace."""
    session_source: str = ""
    """`explicit`, `inherited` or `trace`."""
    user: str = ""
    team: str = ""
    agent: str = ""
