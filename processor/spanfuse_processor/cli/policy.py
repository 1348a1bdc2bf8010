"""`policy show`: what Guards are told to go by."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from spanfuse_processor.cli.options import api_option, format_option, print_json, printable


@click.group()
def policy() -> None:
    """The policy in force."""


@policy.command()
@api_option
@format_option
def show(api_url: str, output: str) -> None:
    """Show the policy of a running `spanfuse up`: its mode, and its rules on tools in their order.

    JSON has all of it; what holds its default is left out. To change it, change the configuration file and send the process
    SIGHUP: Guards learn of it at once.

    \b
    Example:
      spanfuse policy show --format json
    """
    from spanfuse_processor.cli.api import Api

    with Api(api_url) as api:
        notice = api.get("/v1/policy")
    if output == "json":
        print_json(notice)
        return
    found = notice["policy"]
    since = datetime.fromtimestamp(notice["issued_at_ns"] / 1e9, UTC)
    click.echo(
        f"policy {notice['epoch']}, in force since {since:%Y-%m-%d %H:%M:%S} UTC, mode {found.get('mode', 'observe')}"
    )
    for rule in found.get("tools", ()):
        click.echo(printable(describe(rule)))
    click.echo(f"  {found.get('tools_default', 'allow')} every other tool")


def describe(rule: dict[str, Any]) -> str:
    """A rule on tools in one line."""
    words = [f"  {rule['action']} {rule['tool']}"]
    words += [f"of {kind} {rule[kind]}" for kind in ("agent", "team") if kind in rule]
    for path, matcher in rule.get("arguments", {}).items():
        words += [f"where {path} {operator.replace('_', ' ')} {value!r}" for operator, value in matcher.items()]
    if "max_calls" in rule:
        words.append(f"{rule['max_calls']} times a session")
    return " ".join(words) + (f": {rule['reason']}" if rule.get("reason") else "")
