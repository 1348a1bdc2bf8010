"""The reference of the command line, made from the commands: `python -m spanfuse_processor.cli.docs > docs/cli.md`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from spanfuse_processor.cli import cli

WIDTH: Final = 100

_HEAD: Final = """\
# Command line

Made from the commands themselves by `python -m spanfuse_processor.cli.docs > docs/cli.md`; do not edit.
"""


def markdown() -> str:
    """The whole reference."""
    sections = (f"## `{name}`\n\n```text\n{text}\n```\n" for name, text in _helps(cli, "spanfuse"))
    return "\n".join([_HEAD, *sections])


def _helps(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[tuple[str, str]]:
    """The help of a command and of those below it."""
    # A terminal width of its own, so that the text is the same wherever it is made.
    settings = {**cli.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    context = click.Context(command, info_name=name, parent=parent, **settings)
    yield context.command_path, "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            yield from _helps(command.commands[below], below, context)


if __name__ == "__main__":
    click.echo(markdown(), nl=False)
