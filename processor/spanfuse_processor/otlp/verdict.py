"""What became of each span, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spanfuse_processor.otlp.dialects.dialect import Role
from spanfuse_processor.otlp.reader import Reader, View
from spanfuse_processor.otlp.request import Request
from spanfuse_processor.otlp.span import Span
from spanfuse_processor.otlp.traces import Node
from spanfuse_schemas import Call

_NO_CALL: Final[Mapping[str, str]] = {
    "agent": "a span of an agent, chain or workflow: it only repeats what its calls sum up to",
    "other": "no model call and no tool execution",
}


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


def verdict(at: int, span: Span, request: Request, reader: Reader) -> Verdict:
    """What became of a span of a request.

    Args:
        at: its place in the request.
        reader: that which has read the request.
    """
    view = request.views[at]
    if view is None:
        return Verdict(span, "", "other", None, False, "it has no trace or span id, or cannot be read", None)
    counted = request.kept.get(at)
    found = counted or request.made[at]
    who = reader.owner(view)
    if counted is not None:  # with what another span of the call knows
        who = {key: getattr(counted.call, key) for key in who}
    call = found.call if found is not None else None
    reason = _reason(at, view, request)
    return Verdict(span, view.dialect.name, view.role, view.node, counted is not None, reason, call, **who)


def _reason(at: int, view: View, request: Request) -> str:
    if request.made[at] is None:
        return _NO_CALL.get(view.role, "it cannot be read")
    if at in request.kept:
        return "model call" if view.role == "llm" else "tool execution"
    return f"repeats span {request.kept[request.repeats[at]].call.span_id}"
