"""How the demo is shown: a table updated in place, lines where stdout is no terminal, or nothing until the end."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

from spanfuse_processor.demo.board import Board, Row

if TYPE_CHECKING:
    from rich.table import Table

STYLES: Final = {"stopped": "bold red", "finished": "bold green", "failed": "bold yellow", "running": "cyan"}


class View(Protocol):
    """Shows a board while it changes."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def changed(self, row: Row) -> None:
        """A row has changed."""


def view_of(board: Board, output: str) -> View:
    """The view for that output format and this stdout."""
    if output == "json":
        return Silent()
    return LiveTable(board) if sys.stdout.isatty() else Lines()


class Silent:
    """Shows nothing: the result comes at the end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def changed(self, row: Row) -> None:
        """Nothing."""


class Lines(Silent):
    """One line for each thing that happens, but for the calls."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}

    def changed(self, row: Row) -> None:
        """Print the row if its state is another than before."""
        name = row.scenario.name
        if self._shown.get(name) == row.state:
            return
        self._shown[name] = row.state
        print(_line(row), flush=True)


def _line(row: Row) -> str:
    name, calls = row.scenario.name, row.calls_allowed
    if row.state == "stopped":
        return f"{name}: stopped before call {calls + 1} by {row.rule}: {row.message}"
    if row.state == "finished":
        return f"{name}: finished after {calls} calls"
    if row.state == "running":
        return f"{name}: {row.scenario.doing}"
    return f"{name}: {row.state} {row.message}".rstrip()


class LiveTable:
    """A rich table, updated in place."""

    def __init__(self, board: Board) -> None:
        from rich.live import Live

        self._board = board
        self._live = Live(get_renderable=self.table, refresh_per_second=10)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def changed(self, row: Row) -> None:
        """The table is drawn anew on its own."""

    def table(self) -> Table:
        """The table as it is now."""
        from rich.table import Table
        from rich.text import Text

        table = Table(title="spanfuse demo", title_justify="left")
        for heading, right in (
            ("agent", 0),
            ("calls", 1),
            ("state", 0),
            ("rule", 0),
            ("what happened", 0),
            ("money", 1),
        ):
            table.add_column(heading, justify="right" if right else "left", no_wrap=heading != "what happened")
        for row in self._board:
            table.add_row(
                row.scenario.name,
                str(row.calls_allowed),
                Text(row.state, STYLES.get(row.state, "dim")),
                row.rule,
                Text(row.message or row.scenario.doing),
                f"${row.cost_nano_usd / 1e9:.4f}",
            )
        return table
