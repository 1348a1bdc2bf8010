"""Options that several commands share, and how data is printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_API_URL: Final = "http://127.0.0.1:8787"

files_argument = click.argument(
    "files", nargs=-1, required=True, metavar="FILES...", type=click.Path(exists=True, allow_dash=True, path_type=Path)
)
config_option = click.option(
    "--config",
    "config_path",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Configuration file, YAML. Without one, the defaults.",
)
required_config_option = click.option(
    "--config",
    "config_path",
    metavar="FILE",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Configuration file, YAML.",
)
brokers_option = click.option(
    "--brokers",
    metavar="HOST:PORT,...",
    help="Kafka brokers, instead of those of the configuration file.",
)
format_option = click.option(
    "--format",
    "output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How data is printed: for people, or for programs.",
)
api_option = click.option(
    "--api",
    "api_url",
    metavar="URL",
    envvar="SPANFUSE_API_URL",
    default=DEFAULT_API_URL,
    show_default=True,
    show_envvar=True,
    help="Where the API of `spanfuse up` or `spanfuse api` is.",
)
token_option = click.option(
    "--token",
    metavar="TOKEN",
    envvar="SPANFUSE_API_TOKEN",
    show_envvar=True,
    help="Token of the API, where it needs one; rather in the environment, since others see arguments.",
)


def asks_api(command: Callable[..., Any]) -> Callable[..., Any]:
    """With the options that say where the API is: the command gets `api`, open, in their place."""

    @api_option
    @token_option
    @wraps(command)
    def run(*args: Any, api_url: str, token: str | None, **more: Any) -> Any:
        from spanfuse_processor.cli.api import Api

        with Api(api_url, token) as api:
            return command(*args, api=api, **more)

    return run


def timeout_option(means: str) -> Callable[[Command], Command]:
    """How long something may take, seconds; `means` is its help."""
    return click.option(
        "--timeout",
        "timeout_s",
        metavar="SECONDS",
        type=click.FloatRange(0.1, 600),
        default=15.0,
        show_default=True,
        help=means,
    )


def print_json(value: Any) -> None:
    """One JSON document on one line of stdout."""
    click.echo(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def write_json(path: Path, value: Any) -> None:
    """A JSON document for people and programs as a file."""
    with path.open("w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=1)
        file.write("\n")


def printable(text: str) -> str:
    """A text of others for a terminal: what is no printable character, such as a line break, is shown as its escape."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
