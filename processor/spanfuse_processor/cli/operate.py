"""`reset`: an operator's way to close a breaker."""

from __future__ import annotations

import getpass
from pathlib import Path

import click

from spanfuse_processor.cli.options import (
    api_option,
    brokers_option,
    config_option,
    format_option,
    print_json,
    printable,
    timeout_option,
    token_option,
)
from spanfuse_processor.cli.types import Key


@click.command()
@click.argument("key", type=Key())
@api_option
@token_option
@config_option
@brokers_option
@timeout_option("How long the breaker may take to close.")
@format_option
def reset(
    key: str,
    api_url: str,
    token: str | None,
    config_path: Path | None,
    brokers: str | None,
    timeout_s: float,
    output: str,
) -> None:
    """Close the breaker of KEY and forget what its detectors have counted.

    Through the API; with --config or --brokers of a stream deployment, through Kafka.

    \b
    Examples:
      spanfuse reset session:checkout-42
      spanfuse reset agent:research --config worker.yaml
    """
    by = actor()
    if config_path is None and brokers is None:
        from spanfuse_processor.cli.api import Api

        with Api(api_url, token) as api:
            closed = api.post("/v1/reset", {"key": key, "actor": by}, timeout_s)
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
