"""Tables for people, with rich."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table


class PipedConsole(Console):
    """A console that leaves it to the command what to do when its reader goes away."""

    def on_broken_pipe(self) -> None:
        """Called by rich in the handler of the error."""
        raise BrokenPipeError


def table(title: str, *columns: str, header: bool = True) -> Table:
    """An empty table.

    Args:
        columns: headings; `>` before one aligns the column right, `=` keeps its cells on one line.
        header: whether the headings are shown.
    """
    made = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_header=header)
    for column in columns:
        right, whole = column.startswith(">"), column[0] in "=>"
        made.add_column(column.lstrip("=>"), justify="right" if right else "left", no_wrap=whole, overflow="fold")
    return made
