"""Every `spanfuse …` in a block of code or between backticks, in README and all pages, is a command that there is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from spanfuse_processor.cli import cli

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "deploy/**/*.md", "dashboards/**/*.md")
    for page in ROOT.glob(pattern)
    if page != ROOT / "docs" / "cli.md"  # made from the commands
)
_BEGINS = re.compile(
    r"(?:^|[|;&(]|\$ | -- |\b(?:do|exec|run) (?:-\S+ )*(?:\S+ )?)\s*(?:\w+=\S* )*(?:\S*/)?spanfuse (?=[a-z-])"
)
"""Where a command begins; elsewhere `spanfuse` is a word of another command."""
_ENDS = {"|", "||", "&", "&&", ";", ">", ">>", "2>", "<", ")", "#"}


class Shown(NamedTuple):
    """A command line of a page."""

    words: list[str]
    """Its arguments."""
    whole: bool
    """It stands in a block, to be copied: nothing that has to be given may be missing."""


def commands(text: str) -> Iterator[Shown]:
    """All of them; what is left open with `…` is none."""
    blocks = re.findall(r"^ *```(?:sh|bash|console)\n(.*?)^ *```$", text, re.M | re.S)
    lines = [(line, True) for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    lines += [(line, False) for line in re.findall(r"(?<!`)`(spanfuse [^`\n]+)`(?!`)", text)]
    for line, whole in lines:
        for start in _BEGINS.finditer(line.split(" #")[0]):
            words = list(_words(line[start.end() :]))
            if words and not any("…" in word or "..." in word for word in words):
                yield Shown(words, whole)


def _words(rest: str) -> Iterator[str]:
    lexer = shlex.shlex(rest, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split, lexer.commenters = True, "#"
    for word in lexer:
        if word in _ENDS:
            return
        yield word


def wrong(words: list[str], command: click.Command = cli, name: str = "spanfuse", whole: bool = True) -> str:
    """What is wrong with a command line; empty if nothing is.

    Args:
        whole: in a block, nothing that has to be given may be missing.
    """
    context = click.Context(command, info_name=name)
    if isinstance(command, click.Group):
        if not words or words[0] not in command.commands:
            return "" if not words and not whole else f"{name} has no command {words[:1]}"
        return wrong(words[1:], command.commands[words[0]], f"{name} {words[0]}", whole)
    try:
        found, rest, _ = command.make_parser(context).parse_args(list(words))
    except click.BadOptionUsage as error:  # an option without its value
        return error.format_message() if whole else ""
    except click.UsageError as error:
        return error.format_message()
    for parameter in command.params:
        given = found.get(parameter.name or "")
        if isinstance(parameter.type, click.Choice) and isinstance(given, str) and given not in parameter.type.choices:
            return f"{given} is none of {parameter.type.choices}"
        if whole and parameter.required and not given:
            return f"{parameter.name} is missing"
    return f"unexpected: {rest}" if rest else ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_line_is_one(page: Path) -> None:
    found = commands(page.read_text(encoding="utf-8"))
    shown = {" ".join(one.words): wrong(one.words, whole=one.whole) for one in found}
    assert {line: why for line, why in shown.items() if why} == {}


def test_what_is_no_command_is_found() -> None:
    """An unknown command, an unknown option, an argument too many, a value that is none of the choices."""
    lines = ("look", "status --wach", "reset a b", "sessions --sort colour", "budget", "worker")
    assert all(wrong(line.split()) for line in lines)
    assert not wrong(["budget", "extend", "user:ada", "user/daily", "10", "--for", "2h"])
    assert list(commands("```sh\necho 'mode: observe' | spanfuse policy set - --reason 'x y'  # now\n```")) == [
        (["policy", "set", "-", "--reason", "x y"], True)
    ]
