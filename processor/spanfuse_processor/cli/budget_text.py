"""Accounts of budgets, and operators' orders about them, for people."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click
from rich.text import Text

from spanfuse_processor.cli.options import printable
from spanfuse_processor.cli.tables import PipedConsole, table
from spanfuse_schemas.budget import NANO, dollars


def print_accounts(rows: list[dict[str, Any]]) -> None:
    """A table of accounts, or that there is none."""
    if not rows:
        click.echo("No budget has an account yet; see budgets: in the configuration.")
        return
    held = any(row.get("held") for row in rows)
    shown = table("Budgets", "account", ">spent", *([">held"] if held else []), ">limit", ">left", "=used", "ends")
    for row in rows:
        shown.add_row(*(Text("\n".join(map(printable, lines))) for lines in _cells(row, held)))
    PipedConsole().print(shown)


def _cells(row: dict[str, Any], held: bool) -> Iterator[list[str]]:
    """The lines of each cell: two where one would not leave the others room in 80 columns."""
    unit = row["unit"]
    yield [row["scope"], row["budget"]]
    yield [_amount(unit, row["spent"])]
    if held:
        yield [_amount(unit, row["held"]) if row.get("held") else ""]
    yield [_amount(unit, row["limit"])]
    yield [_amount(unit, row["remaining"])]
    yield [f"{row['used']:.0%}", row["status"]]
    yield _moment(row["period_end_ns"]).split()


def _amount(unit: str, value: int) -> str:
    return dollars(value) if unit == "usd" else f"{value:,}"


def _moment(at_ns: int | None) -> str:
    return "never" if at_ns is None else f"{datetime.fromtimestamp(at_ns / NANO, UTC):%Y-%m-%d %H:%M}Z"


def print_audit(found: list[dict[str, Any]]) -> None:
    """A table of orders."""
    shown = table("Orders about budgets", "when", "who", "=order", "account", ">amount", "reason", "done")
    for one in found:
        order = one["order"]
        unit = one.get("account", {}).get("unit", "usd")
        amount = _amount(unit, order["amount"]) if order.get("amount") else ""
        cells = (
            _moment(order["at_ns"]).split(), [order.get("actor", "")], [order["action"]], [order["scope"], order["budget"]],
            [amount], [order.get("reason", "")], ["yes" if one["done"] else one.get("why", "no")],
        )  # fmt: skip
        shown.add_row(*(Text("\n".join(map(printable, lines))) for lines in cells))
    PipedConsole().print(shown)
