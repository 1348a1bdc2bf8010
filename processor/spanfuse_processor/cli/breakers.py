"""`breakers` and `explain`: what stands against whom, and why it did or did not trip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from spanfuse_processor.cli.look import View, looks
from spanfuse_processor.cli.types import Key

if TYPE_CHECKING:
    from spanfuse_processor.cli.api import Api


@click.command()
@click.argument("key", metavar="[KEY]", required=False, type=Key())
@click.option("--find", "query", metavar="TEXT", help="With this in their key.")
@click.option(
    "--scope",
    type=click.Choice(["session", "trace", "agent", "user", "team", "global"]),
    help="Of this kind.",
)
@click.option(
    "--state", type=click.Choice(["open", "half-open", "closed"]), help="In this state; closed: a nudge stands."
)
@click.option("--mode", type=click.Choice(["observe", "enforce"]), help="Whether they are enforced.")
@click.option("--rule", metavar="RULE", help="Of this rule.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=30, show_default=True, help="How many.")
@looks
def breakers(api: Api, key: str | None, limit: int, **asked: Any) -> View:
    """List what stands, newest first, or with a KEY what was decided about it.

    \b
    Examples:
      spanfuse breakers --mode enforce
      spanfuse breakers session:checkout-42
      spanfuse breakers --rule cycle --format json | jq -r '.breakers[].key'
    """
    if key is not None:
        return _history(api, key, limit)
    if asked["state"]:
        asked["state"] = asked["state"].replace("-", "_")
    rows, cursor = api.listed("/v1/breakers", "breakers", limit, **asked)

    def lines(width: int) -> Any:
        from spanfuse_processor.cli.breakers_text import listed

        return listed(rows, width, more=bool(cursor))

    return View({"breakers": rows, "next": cursor}, lines)


def _history(api: Api, key: str, limit: int) -> View:
    from spanfuse_processor.cli.api import NotFound

    try:
        found = api.get(f"/v1/breakers/{quote(key, safe=':')}", limit=min(limit, 100))
    except NotFound:
        found = {"key": key, "decision": None, "history": []}

    def lines(width: int) -> Any:
        from spanfuse_processor.cli.breakers_text import history

        return history(found, width)

    return View(found, lines)


@click.command()
@click.argument("key", type=Key())
@click.option("--all", "everything", is_flag=True, help="Also rules that cannot fire, or have counted nothing.")
@looks
def explain(api: Api, key: str, everything: bool) -> View:
    """Say what is counted about KEY, rule by rule, and why its breaker did or did not trip.

    What stands comes first, then what is nearest to its threshold. JSON has all rules.

    \b
    Examples:
      spanfuse explain session:checkout-42
      spanfuse explain agent:research --all
    """
    found = api.get(f"/v1/explain/{quote(key, safe=':')}")

    def lines(width: int) -> Any:
        from spanfuse_processor.cli.explain_text import told

        return told(found, width, everything=everything)

    return View(found, lines)
