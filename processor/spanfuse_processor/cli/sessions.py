"""`sessions`: which there are, and what one of them did."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from spanfuse_processor.cli.group import Problem
from spanfuse_processor.cli.look import View, looks
from spanfuse_processor.cli.options import printable
from spanfuse_processor.cli.types import AgentName, Duration

if TYPE_CHECKING:
    from spanfuse_processor.cli.api import Api

LISTED: Final = 30
"""Rows of a list, unless it says."""


@click.command()
@click.argument("session", metavar="[ID]", required=False)
@click.option("--find", "query", metavar="TEXT", help="With this in their id, agent, user, team or model.")
@click.option("--state", type=click.Choice(["closed", "open", "half-open"]), help="With a breaker in this state.")
@click.option("--agent", type=AgentName(), help="Of this agent.")
@click.option("--user", metavar="USER", help="Of this user.")
@click.option("--team", metavar="TEAM", help="Of this team.")
@click.option(
    "--since", "since", metavar="DURATION", type=Duration(), help="With a call in the last 90s, 30m, 2h or 1d."
)
@click.option(
    "--sort",
    type=click.Choice(["last", "cost", "calls", "tokens", "detections"]),
    default="last",
    show_default=True,
    help="What comes first.",
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 100_000),
    help=f"How many. Default: {LISTED}; of one, all steps that are kept.",
)
@looks
def sessions(api: Api, session: str | None, since: int | None, limit: int | None, **asked: Any) -> View:
    """List sessions, or show what one of them did.

    With an ID: its calls as a line of letters, where equal steps have equal letters, so that repeats and cycles show; then its
    last steps, what rules found, and its budgets. Exit code 1 if it is blocked.

    \b
    Examples:
      spanfuse sessions --state open --since 1h
      spanfuse sessions checkout-42
      spanfuse sessions --sort cost --limit 5 --watch
    """
    if session is not None:
        return _one(api, session.removeprefix("session:"), limit)
    if asked["state"]:
        asked["state"] = asked["state"].replace("-", "_")
    if since is not None:
        asked["since_ns"] = time.time_ns() - since
    rows, more = api.listed("/v1/sessions", "sessions", limit or LISTED, **asked)

    def lines(width: int) -> Any:
        from spanfuse_processor.cli.sessions_text import listed

        return listed(rows, width, more=bool(more))

    return View({"sessions": rows, "next": more}, lines)


def _one(api: Api, session: str, limit: int | None) -> View:
    from spanfuse_processor.cli.api import NotFound
    from spanfuse_processor.cli.words import effect

    path = f"/v1/sessions/{quote(session, safe='')}"
    try:
        row, timeline = api.get(path), api.get(f"{path}/timeline")
    except NotFound:
        shown = printable(session)
        raise Problem(f"no session {shown} is known; look for it: spanfuse sessions --find {shown}") from None

    def lines(width: int) -> Any:
        from spanfuse_processor.cli.sessions_text import told

        return told(row, timeline, width, limit)

    blocked = effect(row) == "blocked"
    name = printable(row["session"])
    release = f"{name} is blocked by {row['rule']}; release it with: spanfuse reset session:{name}"
    data = {"session": row, **{name: timeline[name] for name in ("steps", "detections", "decisions")}}
    return View(data, lines, printable(release) if blocked else "")
