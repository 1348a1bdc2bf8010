"""`events`: all that happens, as it happens."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from spanfuse_processor.cli.options import asks_api, print_json
from spanfuse_processor.cli.types import Key

if TYPE_CHECKING:
    from spanfuse_processor.cli.api import Api, Event

KINDS: Final = ("decision", "detection", "policy", "audit", "sessions")
"""What happens. Beside these, `anew`: what came before it is not known any more."""
PAUSE_S: Final = 1.0
"""Between two tries to reach a host that is away, seconds."""
NAMES: Final = ("session", "agent", "user", "team")
"""Fields of a detection that a key may name."""


@click.command()
@click.option(
    "--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only these; may be given several times."
)
@click.option("--key", type=Key(), help="Only what concerns this key, such as session:checkout-42 or agent:research.")
@click.option("--after", "last_id", metavar="ID", default="", help="Go on behind the event with this id.")
@click.option(
    "--retry",
    "retry_s",
    metavar="SECONDS",
    type=click.FloatRange(0, 86_400),
    default=30.0,
    show_default=True,
    help="How long the host may be away before this ends.",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(["json", "table"]),
    default="json",
    show_default=True,
    help="One JSON object a line, or a line for people.",
)
@asks_api
def events(api: Api, kinds: tuple[str, ...], key: str | None, last_id: str, retry_s: float, output: str) -> None:
    """Follow decisions, detections, orders, the policy, and sessions that changed.

    Each line has the event's id and kind, and what it says. If the host goes away, it goes on behind the last event once it is
    back; `anew` says that some may have been missed. Stop with Ctrl-C.

    \b
    Examples:
      spanfuse events --kind detection | jq -r .data.rule
      spanfuse events --key agent:research --format table
      spanfuse events --after 19b4c8f2a10-42
    """
    try:
        for event in _followed(api, last_id, retry_s):
            said = json.loads(event.data)
            if event.event == "anew" or (
                event.event in (kinds or KINDS) and (key is None or concerns(event.event, said, key))
            ):
                _show(event, said, output)
    except KeyboardInterrupt:  # the way to stop it
        return


def _followed(api: Api, last_id: str, retry_s: float) -> Iterator[Event]:
    """The events, across streams that break."""
    from spanfuse_processor.errors import UnavailableError

    away_since: float | None = None
    while True:
        try:
            for event in api.events("/v1/events", last_id):
                away_since, last_id = None, event.id or last_id
                yield event
        except UnavailableError as error:
            if not last_id:  # it was never there
                raise
            away_since = away_since or time.monotonic()
            if time.monotonic() - away_since >= retry_s:
                raise UnavailableError(f"{error}; go on later with: spanfuse events --after {last_id}") from None
        time.sleep(min(PAUSE_S, retry_s))


def concerns(event: str, said: dict[str, Any], key: str) -> bool:
    """Whether an event is about a key."""
    scope, _, name = key.partition(":")
    if event == "detection":
        return scope in NAMES and said.get(scope, "") == name
    if event == "sessions":
        return scope == "session" and (name in said["changed"] or bool(said.get("more")))
    if event == "audit":
        return bool(said["order"]["scope"] == key)
    return bool(said.get("key") == key)


def _show(event: Event, said: dict[str, Any], output: str) -> None:
    if output == "json":
        print_json({"id": event.id, "event": event.event, "data": said})
        return
    from spanfuse_processor.cli.events_text import line

    click.echo(line(event, said))
