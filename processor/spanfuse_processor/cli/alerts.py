"""`spanfuse alerts`: what people were told, who has taken it on, and whether it arrives."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from spanfuse_processor.cli.group import SpanfuseGroup
from spanfuse_processor.cli.look import View, looks
from spanfuse_processor.cli.operate import actor
from spanfuse_processor.cli.options import asks_api, format_option, print_json, printable
from spanfuse_processor.cli.types import Duration

if TYPE_CHECKING:
    from spanfuse_processor.cli.api import Api

TEST_TIMEOUT_S: Final = 130.0
"""How long a test may take, seconds: a receiver may have two minutes."""


@click.group(cls=SpanfuseGroup)
def alerts() -> None:
    """Alerts: what fires, who has taken it on, and whether messages arrive.

    Through the API of a host with `exporters.alerts`.
    """


@alerts.command("list")
@click.option("--state", type=click.Choice(["firing", "resolved"]), help="Whether they are over.")
@click.option("--severity", type=click.Choice(["info", "warning", "critical"]), help="How much they matter.")
@click.option("--rule", metavar="RULE", help="Of this rule.")
@click.option("--key", metavar="KEY", help="About this key.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=30, show_default=True, help="How many.")
@looks
def list_(api: Api, limit: int, **asked: Any) -> View:
    """List alerts, newest first.

    \b
    Examples:
      spanfuse alerts list --state firing
      spanfuse alerts list --severity critical --format json
    """
    rows, cursor = api.listed("/v1/alerts", "alerts", limit, **asked)

    def lines(width: int) -> Any:
        from spanfuse_processor.cli.alerts_text import listed

        return listed(rows, width, more=bool(cursor))

    return View({"alerts": rows, "next": cursor}, lines)


@alerts.command()
@click.argument("id")
@format_option
@asks_api
def ack(api: Api, id: str, output: str) -> None:
    """Take the alert ID on: nobody is reminded of it until it is over, and PagerDuty is told.

    \b
    Example:
      spanfuse alerts ack 3f1c9a5e7d20b846
    """
    found = api.post(f"/v1/alerts/{quote(id, safe='')}/ack", {"actor": actor()})
    _tell(found, f"taken on by {found.get('acknowledged_by', '')}", output)


@alerts.command()
@click.argument("id")
@click.option(
    "--for", "lasts_ns", type=Duration(), default="1h", show_default=True, help="How long, such as 30m; 0s ends it."
)
@format_option
@asks_api
def snooze(api: Api, id: str, lasts_ns: int, output: str) -> None:
    """Tell nobody of the alert ID for a while; if it fires still, it is told then.

    \b
    Example:
      spanfuse alerts snooze 3f1c9a5e7d20b846 --for 2h
    """
    body = {"until_ns": time.time_ns() + lasts_ns, "actor": actor()}
    found = api.post(f"/v1/alerts/{quote(id, safe='')}/snooze", body)
    from spanfuse_processor.cli.words import moment

    until_ns = found.get("snoozed_until_ns")
    _tell(found, f"snoozed until {moment(until_ns)}" if until_ns else "not snoozed", output)


def _tell(found: dict[str, Any], said: str, output: str) -> None:
    if output == "json":
        print_json(found)
    else:
        click.echo(printable(f"{found['id']}: {said}"))


@alerts.command()
@click.argument("receiver", required=False, default="", metavar="[RECEIVER]")
@looks
def test(api: Api, receiver: str) -> View:
    """Send a test to RECEIVER, or to each, and say what became of it; exit code 1 if one did not take it.

    \b
    Examples:
      spanfuse alerts test
      spanfuse alerts test slack/oncall
    """
    found = api.post("/v1/alerts/test", {"receiver": receiver, "actor": actor()}, TEST_TIMEOUT_S)
    lost = [one["receiver"] for one in found["deliveries"] if not one["delivered"]]

    def lines(width: int) -> Any:
        from spanfuse_processor.cli.alerts_text import deliveries

        return deliveries(found["deliveries"], width)

    return View(found, lines, f"not delivered: {printable(', '.join(lost))}" if lost else "")
