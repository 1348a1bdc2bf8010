"""`policy`: what Guards are told to go by, what is laid over the configuration file, and what another policy would change."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import click

from spanfuse_processor.cli.group import SpanfuseGroup
from spanfuse_processor.cli.look import View, looks, show
from spanfuse_processor.cli.operate import actor
from spanfuse_processor.cli.options import asks_api, format_option, print_json
from spanfuse_processor.cli.types import Duration

if TYPE_CHECKING:
    from spanfuse_processor.cli.api import Api

DRY_RUN_S: Final = 120.0
"""How long a dry run may take, seconds: it replays up to a day of calls."""

_file_argument = click.argument("file", type=click.File("rb"), metavar="FILE")


@click.group(cls=SpanfuseGroup)
def policy() -> None:
    """The policy in force, and changes of it.

    A policy FILE is YAML with the sections mode, detectors, budgets, policies and tools of the configuration, those that are to
    change; `-` is the standard input.
    """


@policy.command("show")
@looks
def show_(api: Api) -> View:
    """Show the policy in force: its mode, its rules on tools in their order, and what is laid over the configuration file.

    JSON has all of it; what holds its default is left out.

    \b
    Example:
      spanfuse policy show --format json
    """
    notice, overlay = api.get("/v1/policy"), _overlay(api)

    def lines(width: int) -> Any:
        from spanfuse_processor.cli.policy_text import told

        return told(notice, overlay, width)

    return View(notice, lines)


@policy.command("set")
@click.argument("file", type=click.File("rb"), metavar="[FILE]", required=False)
@click.option("--clear", is_flag=True, help="Take away what was laid over the configuration file.")
@click.option("--reason", default="", metavar="TEXT", help="Why, for those who look at it.")
@asks_api
@format_option
def set_(api: Api, file: Any, clear: bool, reason: str, output: str) -> None:
    """Lay the sections of FILE over the configuration file: Guards go by them at once.

    They take the place of any laid over it before, and hold until the configuration file says something else. Needs the role
    admin. Try it first: `spanfuse policy dry-run`.

    \b
    Examples:
      spanfuse policy set stricter.yaml --reason "loops since the release"
      echo 'mode: observe' | spanfuse policy set - --reason "too many blocks"
      spanfuse policy set --clear
    """
    if clear == (file is not None):
        raise click.UsageError("give either a FILE, or --clear")
    overlay = {} if clear else _sections(file)
    notice = api.put("/v1/policy", {"overlay": overlay, "reason": reason, "actor": actor()})
    if output == "json":
        print_json(notice)
        return
    found = _overlay(api)

    def lines(width: int) -> Any:
        from spanfuse_processor.cli.policy_text import told

        return told(notice, found, width)

    show(View(notice, lines), output)


@policy.command("dry-run")
@_file_argument
@click.option(
    "--since", "since", metavar="DURATION", type=Duration(), help="Calls of the last 30m, 2h or 1d. Default: all kept."
)
@asks_api
@format_option
def dry_run(api: Api, file: Any, since: int | None, output: str) -> None:
    """Say what FILE would change about recent traffic, beside the policy in force. Nothing is changed.

    Needs the role operate.

    \b
    Example:
      spanfuse policy dry-run stricter.yaml --since 6h
    """
    since_ns = time.time_ns() - since if since is not None else 0
    found = api.post("/v1/policy/dry-run", {"overlay": _sections(file), "since_ns": since_ns}, DRY_RUN_S)

    def lines(width: int) -> Any:
        from spanfuse_processor.cli.dry_run_text import told

        return told(found, width)

    show(View(found, lines), output)


def _overlay(api: Api) -> dict[str, Any] | None:
    """What is laid over the configuration file; none also where the host cannot have it."""
    from spanfuse_processor.cli.api import Older

    try:
        found: dict[str, Any] | None = api.get("/v1/policy/overlay")["overlay"]
    except Older:
        return None
    return found


def _sections(file: Any) -> dict[str, Any]:
    """The sections of a policy file, checked as the host will.

    Raises:
        ConfigError: with every problem.
    """
    import os

    from pydantic import ValidationError

    from spanfuse_processor.config.overlay import Overlay
    from spanfuse_processor.config.source import Source
    from spanfuse_processor.errors import ConfigError

    name = getattr(file, "name", "-")
    text = file.read().decode("utf-8", "replace")
    source, data = Source.read(
        name, text, os.environ, "sections of a policy: mode, detectors, budgets, policies, tools"
    )
    problems = [message for _, message in sorted(source.problems)]
    try:
        Overlay.model_validate(data)
    except ValidationError as error:
        for one in error.errors(include_input=False, include_url=False):
            where = ".".join(str(part) for part in one["loc"])
            line = source.line_of(tuple(one["loc"]))
            problems.append(f"{name}:{line}: {where}: {one['msg'].removeprefix('Value error, ')}")
    if problems:
        raise ConfigError(problems)
    if not data:
        raise ConfigError([f"{name}: no section; to take away what was laid over it: spanfuse policy set --clear"])
    return data
