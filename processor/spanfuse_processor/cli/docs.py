"""The reference of the command line, made from the commands: `python -m spanfuse_processor.cli.docs > docs/cli.md`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from spanfuse_processor.cli import cli

WIDTH: Final = 100

JSON: Final = {
    "status": ("status: see [api](api.md)", "decisions: `Decision`"),
    "status KEY": ("key", "decision: `Decision` or null", "session: or null"),
    "sessions": ("sessions", "next: cursor, empty at the end"),
    "sessions ID": ("session", "steps", "detections: `Detection`", "decisions: `Decision`"),
    "breakers": ("breakers: `Decision`", "next: cursor, empty at the end"),
    "breakers KEY": ("key", "decision: `Decision` or null", "history: `Decision`, newest first"),
    "explain KEY": ("key", "known", "decision", "others", "rules", "policy_epoch"),
    "reset KEY": ("key", "state", "epoch"),
    "agents": ("agents: with `failures_per_1000_calls`",),
    "insights AGENT": (
        "agent",
        "decision: `Decision` or null",
        "rules: rule, detections, blocks, last_ns; of the last 1,000 detections",
        "blocks: `Detection`, the last 5 that asked for one",
        "minutes",
    ),
    "benchmark": ("models: with `failures_per_1000_calls`",),
    "budget list": ("budgets",),
    "budget get SCOPE": ("budgets",),
    "budget extend SCOPE BUDGET AMOUNT": ("done", "why", "account"),
    "budget audit": ("audit: `Audited`",),
    "policy show": ("key", "epoch", "issued_at_ns", "policy", "signature: where keys are set"),
    "policy dry-run FILE": (
        "calls",
        "from_ns",
        "to_ns",
        "complete",
        "totals",
        "by_rule",
        "stopped_by_new_only",
        "stopped_by_old_only",
        "stopped_elsewhere",
    ),
    "alerts list": ("alerts", "next: cursor, empty at the end"),
    "alerts test": ("deliveries",),
    "events": ("id", "event", "data"),
}
"""Command → the fields of its JSON, those of [api](api.md) unless something else is said."""

_HEAD: Final = """\
# Command line

Made from the commands themselves by `python -m spanfuse_processor.cli.docs > docs/cli.md`; do not edit.

What looks and operates goes through the API of `spanfuse up` or `spanfuse api`:

```sh
export SPANFUSE_API_URL=https://spanfuse.example:8787   # or --api; default: http://127.0.0.1:8787
export SPANFUSE_API_TOKEN=…                             # or --token; never shown
spanfuse status --watch                                 # look again every 2 seconds
spanfuse sessions --state open                          # who is stopped, at present
spanfuse sessions checkout-42                           # what it did: equal steps have equal letters
spanfuse explain session:checkout-42                    # what was counted, and why it tripped
spanfuse reset session:checkout-42                      # let it go on
```

Exit codes: 0 good; 1 a problem was found (something is blocked, spent or not known; the API is away, refuses or is older): one
sentence on stderr says which and what to do; 2 wrong usage; 130 after Ctrl-C, or 0 where that is the way to stop.

Tables fit the terminal: columns that have no room are left out, the least needed first, and no value is broken. A pipe gets
every column in full, and no colours, as a terminal with `NO_COLOR` set. What is no printable character is shown as its escape.

## Completion

```sh
echo 'eval "$(spanfuse completion bash)"' >> ~/.bashrc    # bash 4.4 or newer
echo 'eval "$(spanfuse completion zsh)"' >> ~/.zshrc      # behind compinit
spanfuse completion fish > ~/.config/fish/completions/spanfuse.fish
```

Beside commands and options it completes names of agents, and keys of breakers that stand, if the API answers within two
seconds.

## JSON

`--format json` prints one document on one line; with `--watch` one a line. Money is in nano-dollars, times are nanoseconds
since the Unix epoch. Fields are those of [api](api.md); more may come.

"""


def markdown() -> str:
    """The whole reference."""
    sections = (f"## `{name}`\n\n```text\n{text}\n```\n" for name, text in _helps(cli, "spanfuse"))
    return "\n".join([_HEAD + _fields(), *sections])


def _fields() -> str:
    """The table of fields."""
    rows = [f"| `{command}` | {'; '.join(_field(one) for one in fields)} |\n" for command, fields in JSON.items()]
    return "".join(["| command | fields |\n|---|---|\n", *rows])


def _field(said: str) -> str:
    name, colon, more = said.partition(":")
    return f"`{name}`{colon}{more}"


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
