"""`status` and `reset`: an operator's look at the breakers, and the way to close one."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from spanfuse_processor.cli.group import Problem
from spanfuse_processor.cli.options import (
    api_option,
    brokers_option,
    config_option,
    format_option,
    print_json,
    printable,
    timeout_option,
)
from spanfuse_processor.cli.types import Key

if TYPE_CHECKING:
    from spanfuse_processor.cli.api import Api

MAX_ROWS: Final = 20
"""Breakers shown as text, the newest; JSON has all."""


@click.command()
@click.argument("key", required=False, type=Key())
@api_option
@format_option
def status(key: str | None, api_url: str, output: str) -> None:
    """Show what a running `spanfuse up` has seen, and the breakers that are not closed.

    Counters of 0 are in JSON alone. With a KEY, that breaker alone: exit code 1 if it refuses calls.

    \b
    Examples:
      spanfuse status
      spanfuse status session:checkout-42 --format json
    """
    from spanfuse_processor.cli.api import Api

    with Api(api_url) as api:
        if key is not None:
            _show_key(api, key, output)
            return
        found, decisions = api.get("/v1/status"), _decisions(api)
    if output == "json":
        print_json({"status": found, "decisions": decisions})
    else:
        _print_status(found, decisions)


def _decisions(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get("/v1/decisions")["decisions"]
    return found


def _show_key(api: Api, key: str, output: str) -> None:
    decision = next((d for d in _decisions(api) if d["key"] == key), None)
    session = _session(api, key)
    if output == "json":
        print_json({"key": key, "decision": decision, "session": session})
    elif decision is None:
        click.echo(f"{printable(key)}: closed")
    else:
        click.echo(describe(decision))
    release = f"spanfuse reset {printable(key)}"
    if decision is not None and decision["state"] == "half_open":
        if output != "json":
            click.echo(f"The cooldown is over: the next call passes as a probe, and decides. Or: {release}")
    elif decision is not None and decision.get("action") == "block":
        if decision.get("mode", "observe") == "observe":
            click.echo(
                f"{printable(key)} would be blocked by {decision.get('rule', '')}: this deployment observes.", err=True
            )
            return
        raise Problem(f"{printable(key)} is blocked by {decision.get('rule', '')}; release it with: {release}")


def _session(api: Api, key: str) -> Any:
    """What is known of the session of a key; none for other scopes, and where nothing is."""
    from spanfuse_processor.cli.api import NotFound

    scope, _, name = key.partition(":")
    try:
        return api.get(f"/v1/sessions/{quote(name, safe='')}") if scope == "session" else None
    except NotFound:
        return None


def describe(decision: dict[str, Any]) -> str:
    """A decision in one line."""
    words = [
        decision["key"],
        decision.get("action", "allow"),
        f"({decision['state']}, {decision.get('mode', 'observe')})",
    ]
    if rule := decision.get("rule"):
        words.append(f"{rule}:")
    return printable(" ".join([*words, decision.get("message", "")]).rstrip(" :"))


def _print_status(found: Any, decisions: list[dict[str, Any]]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from spanfuse_processor.cli.tables import PipedConsole, table

    console = PipedConsole()
    counters = table("Status", "=name", "value", header=False)
    for name, value in _flat(found):
        counters.add_row(Text(printable(name)), Text(printable(value)))
    console.print(counters)
    if not decisions:
        console.print("No breaker is open.")
        return
    console.print("Breakers", style="bold")
    newest = sorted(decisions, key=lambda decision: int(decision["issued_at_ns"]), reverse=True)
    for decision in newest[:MAX_ROWS]:
        key, _, rest = describe(decision).partition(" ")
        console.print(Padding(Text(key, overflow="fold"), (1, 0, 0, 2)))
        console.print(Padding(Text(rest), (0, 0, 0, 4)))
    if len(decisions) > MAX_ROWS:
        console.print(f"… and {len(decisions) - MAX_ROWS} older; all are in --format json.")


def _flat(value: dict[Any, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Names and values in lines; what was counted not once is left to JSON."""
    rows = []
    for name, inner in value.items():
        if isinstance(inner, list):
            rows += _flat(dict(enumerate(inner)), f"{prefix}{name}.")
        elif isinstance(inner, dict):
            rows += _flat(inner, f"{prefix}{name}.")
        elif inner or not prefix.startswith("counts."):
            rows.append((f"{prefix}{name}", str(inner)))
    return rows


@click.command()
@click.argument("key", type=Key())
@api_option
@config_option
@brokers_option
@timeout_option("How long the breaker may take to close.")
@format_option
def reset(key: str, api_url: str, config_path: Path | None, brokers: str | None, timeout_s: float, output: str) -> None:
    """Close the breaker of KEY and forget what its detectors have counted.

    Through the API of `spanfuse up`; with --config or --brokers of a stream deployment, through Kafka.

    \b
    Examples:
      spanfuse reset session:checkout-42
      spanfuse reset agent:research --config worker.yaml
    """
    by = actor()
    if config_path is None and brokers is None:
        from spanfuse_processor.cli.api import Api

        with Api(api_url) as api:
            closed = api.post("/v1/reset", {"key": key, "actor": by})
    else:
        from spanfuse_processor.cli.kafka import kafka_settings, reset_over_kafka

        decision = reset_over_kafka(kafka_settings(config_path, brokers), key, by, timeout_s)
        closed = {"key": decision.key, "state": decision.state, "epoch": decision.epoch}
    if output == "json":
        print_json(closed)
    else:
        click.echo(printable(f"{closed['key']}: {closed['state']} (epoch {closed['epoch']})"))


def actor() -> str:
    """Who orders it, as far as the system knows; nobody's name in a container whose user has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
