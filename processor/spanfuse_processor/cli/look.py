"""A look at a host: printed once, or again and again with --watch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click

from spanfuse_processor.cli.group import Problem
from spanfuse_processor.cli.options import asks_api, format_option, print_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

EVERY_S: Final = "2"
"""How often --watch looks, seconds, unless it says."""

watch_option = click.option(
    "--watch",
    "every_s",
    metavar="[SECONDS]",
    is_flag=False,
    flag_value=EVERY_S,
    type=click.FloatRange(0.1, 3600),
    help=f"Look again every {EVERY_S} seconds, or as many as are given, until Ctrl-C.",
)


@dataclass(frozen=True)
class View:
    """What a command found.

    Args:
        data: what is printed as JSON.
        lines: the same for people, drawn for a terminal of so many columns.
        problem: why the exit code is 1; empty: it is 0.
    """

    data: Any
    lines: Callable[[int], Iterable[Text]]
    problem: str = ""


def viewed(command: Callable[..., View]) -> Callable[..., None]:
    """With --format and --watch: shows what the command returns."""

    @watch_option
    @format_option
    @wraps(command)
    def run(*args: Any, output: str, every_s: float | None, **more: Any) -> None:
        if every_s is not None:
            watch(lambda: command(*args, **more), output, every_s)
            return
        found = command(*args, **more)
        show(found, output)
        if found.problem:
            raise Problem(found.problem)

    return run


def looks(command: Callable[..., View]) -> Callable[..., None]:
    """The same for a look at the API, with the options that say where that is: the command gets `api`."""
    return asks_api(viewed(command))


def show(view: View, output: str) -> None:
    """Print it once."""
    if output == "json":
        print_json(view.data)
        return
    from spanfuse_processor.cli.columns import terminal

    console = terminal()
    _draw(console, view.lines(console.width))


def _draw(console: Console, lines: Iterable[Text]) -> None:
    for line in lines:
        console.print(line, no_wrap=True, overflow="ignore", crop=False)


def watch(look: Callable[[], View], output: str, every_s: float) -> None:
    """Print it again and again until Ctrl-C: on a terminal in the same place, else one after the other. A server that goes away
    in between is told of, and asked again."""
    from spanfuse_processor.errors import UnavailableError

    frame = Frame(output, every_s)
    try:
        frame.show(look())  # what cannot be reached at all is a mistake
        while True:
            time.sleep(every_s)
            try:
                frame.show(look())
            except UnavailableError as error:
                frame.away(str(error))
    except KeyboardInterrupt:  # the way to stop it
        return


class Frame:
    """The place where a watched look is drawn.

    Args:
        every_s: how often, seconds; it says so.
    """

    def __init__(self, output: str, every_s: float) -> None:
        self._output = output
        self._every_s = every_s
        self._first = True

    def show(self, view: View) -> None:
        """Draw it in place of what was there."""
        from spanfuse_processor.cli.columns import terminal

        console = terminal()
        if self._output == "json" or not console.is_terminal:
            if self._output != "json" and not self._first:
                click.echo()
            show(view, self._output)
        else:
            with console.capture() as captured:
                _draw(console, [*view.lines(console.width), *_told(view.problem)])
            self._redraw(captured.get().splitlines(), console.height)
        self._first = False

    def away(self, why: str) -> None:
        """Say that there is nothing new, and why."""
        click.echo(f"spanfuse: {why}; trying again every {self._every_s:g} s", err=True)

    def _redraw(self, lines: list[str], height: int) -> None:
        room = max(1, height - 2)
        cut = [*lines[: room - 1], f"… {len(lines) - room + 1} more lines"] if len(lines) > room else lines
        head = f"{time.strftime('%H:%M:%S')}  every {self._every_s:g} s; stop with Ctrl-C"
        # Home, each line with the rest of it cleared, then what is below: without the flicker of an empty screen.
        click.echo("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in (head, *cut)) + "\x1b[J", nl=False)
        click.get_text_stream("stdout").flush()


def _told(problem: str) -> Iterable[Text]:
    from rich.text import Text

    return [Text(problem, "red")] if problem else []
