"""`insights`: all that is known of an agent."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import click

from spanfuse_processor.cli.group import Problem
from spanfuse_processor.cli.look import View, looks
from spanfuse_processor.cli.options import printable
from spanfuse_processor.cli.types import AgentName

if TYPE_CHECKING:
    from spanfuse_processor.cli.api import Api

DETECTIONS: Final = 1_000
"""The last ones looked at for the rules that fire most."""
MAX_BLOCKS: Final = 5
"""Blocks told of."""


@click.command()
@click.argument("agent", type=AgentName())
@click.option(
    "--minutes", type=click.IntRange(5, 1440), default=60, show_default=True, help="How far the bars go back."
)
@looks
def insights(api: Api, agent: str, minutes: int) -> View:
    """Show what an agent does and costs, what is usual for it, which limits to give it, and why it was stopped.

    \b
    Examples:
      spanfuse insights research
      spanfuse insights research --format json | jq .agent.usual
    """
    from spanfuse_schemas.names import normal_name

    rows = api.get("/v1/agents")["agents"]
    row = next((row for row in rows if row["agent"] == normal_name(agent)), None)
    if row is None:
        raise Problem(_unknown(agent, [row["agent"] for row in rows]))
    name = row["agent"]
    found = api.get("/v1/detections", agent=name, limit=DETECTIONS)["detections"]
    data = {
        "agent": row,
        "decision": _standing(api, f"agent:{name}"),
        "rules": _by_rule(found),
        "blocks": [one for one in found if one["action"] == "block"][:MAX_BLOCKS],
        "minutes": api.get("/v1/series", kind="agent", name=name, minutes=minutes)["minutes"],
    }

    def lines(width: int) -> Any:
        from spanfuse_processor.cli.insights_text import told

        return told(data, width)

    return View(data, lines)


def _unknown(agent: str, known: list[str]) -> str:
    near = get_close_matches(agent, known, 3, 0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; see: spanfuse agents"
    return printable(f"no agent {agent} has made a call{hint}")


def _standing(api: Api, key: str) -> dict[str, Any] | None:
    """What stands against a key."""
    scope = key.partition(":")[0]
    found = api.get("/v1/breakers", scope=scope, query=key, limit=1_000)["breakers"]
    return next((one for one in found if one["key"] == key), None)


def _by_rule(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """How often each rule fired, most often first."""
    rules: dict[str, dict[str, Any]] = {}
    for one in found:
        row = rules.setdefault(
            one["rule"], {"rule": one["rule"], "detections": 0, "blocks": 0, "last_ns": one["at_ns"]}
        )
        row["detections"] += 1
        row["blocks"] += one["action"] == "block"
    return sorted(rules.values(), key=lambda row: (-row["detections"], row["rule"]))
