"""`tail`: follow decisions and detections as they happen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from spanfuse_processor.cli.options import asks_api, format_option, print_json

if TYPE_CHECKING:
    from spanfuse_processor.cli.api import Api


@click.command()
@asks_api
@format_option
def tail(api: Api, output: str) -> None:
    """Follow the decisions and detections of a running host, one line each.

    Begins with the breakers that are not closed at present. Stop with Ctrl-C. To go on where you were, see `events`.

    \b
    Example:
      spanfuse tail --format json | jq .rule
    """
    try:
        for event in api.events("/v1/decisions/stream"):
            if event.event in ("decision", "detection"):
                _show(event.event, json.loads(event.data), output)
    except KeyboardInterrupt:  # the way to stop it
        return


def _show(event: str, record: dict[str, Any], output: str) -> None:
    if output == "json":
        print_json({"type": event, **record})
        return
    from spanfuse_processor.cli.words import describe, describe_detection

    click.echo(describe(record) if event == "decision" else describe_detection(record))
