"""`status`: a look at the whole, or at one key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from spanfuse_processor.cli.look import View, looks
from spanfuse_processor.cli.options import printable
from spanfuse_processor.cli.types import Key

if TYPE_CHECKING:
    from spanfuse_processor.cli.api import Api


@click.command()
@click.argument("key", required=False, type=Key())
@looks
def status(api: Api, key: str | None) -> View:
    """Show how a running host is, what it has counted, and the breakers that are not closed.

    Counters of 0 are in JSON alone. With a KEY, that breaker alone: exit code 1 if it refuses calls.

    \b
    Examples:
      spanfuse status --watch
      spanfuse status session:checkout-42 --format json
    """
    decisions = api.get("/v1/decisions")["decisions"]
    if key is not None:
        return _of_key(api, key, decisions)
    found = api.get("/v1/status")

    def lines(width: int) -> Any:
        from spanfuse_processor.cli.status_text import told

        return told(found, decisions, width)

    return View({"status": found, "decisions": decisions}, lines)


def _of_key(api: Api, key: str, decisions: list[dict[str, Any]]) -> View:
    decision = next((d for d in decisions if d["key"] == key), None)
    found = {"key": key, "decision": decision, "session": _session(api, key)}

    def lines(width: int) -> Any:
        from spanfuse_processor.cli.status_text import of_key

        return of_key(found, width)

    return View(found, lines, _problem(key, decision))


def _problem(key: str, decision: dict[str, Any] | None) -> str:
    from spanfuse_processor.cli.words import effect

    if decision is None or effect(decision) != "blocked":
        return ""
    return printable(f"{key} is blocked by {decision.get('rule', '')}; release it with: spanfuse reset {key}")


def _session(api: Api, key: str) -> Any:
    """What is known of the session of a key; none for other scopes, and where nothing is."""
    from spanfuse_processor.cli.api import NotFound

    scope, _, name = key.partition(":")
    try:
        return api.get(f"/v1/sessions/{quote(name, safe='')}") if scope == "session" else None
    except NotFound:
        return None
