"""`tail`: follow decisions and detections as they happen."""

from __future__ import annotations

import json
from typing import Any

import click

from spanfuse_processor.cli.operate import describe
from spanfuse_processor.cli.options import api_option, format_option, print_json, printable


@click.command()
@api_option
@format_option
def tail(api_url: str, output: str) -> None:
    """Follow the decisions and detections of a running `spanfuse up`, one line each.

    Begins with the breakers that are not closed at present. Stop with Ctrl-C.

    \b
    Example:
      spanfuse tail --format json | jq .rule
    """
    from spanfuse_processor.cli.api import Api

    try:
        with Api(api_url) as api:
            for event, data in api.events("/v1/decisions/stream"):
                if event in ("decision", "detection"):
                    _show(event, json.loads(data), output)
    except KeyboardInterrupt:  # the way to stop it
        return


def _show(event: str, record: dict[str, Any], output: str) -> None:
    if output == "json":
        print_json({"type": event, **record})
    else:
        click.echo(describe(record) if event == "decision" else describe_detection(record))


def describe_detection(detection: dict[str, Any]) -> str:
    """A detection in one line."""
    rule, action, session = detection["rule"], detection["action"], detection["session"]
    return printable(f"session:{session} detection ({detection['mode']}) {rule} {action}: {detection['message']}")
