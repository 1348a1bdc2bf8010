"""Accounts of budgets, and operators' orders about them, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.text import Text

from spanfuse_processor.cli.columns import Cell, Column, lay_out
from spanfuse_processor.cli.words import moment, until
from spanfuse_schemas.budget import dollars

Row = dict[str, Any]

STATUS: Final = {"ok": "green", "warning": "yellow", "exhausted": "red"}
"""Status of an account → its colour."""

_ACCOUNTS: Final = (
    Column("WHOSE", least=20, middle=True),
    Column("BUDGET", least=12),
    Column("SPENT", right=True),
    Column("HELD", right=True),
    Column("LIMIT", right=True),
    Column("LEFT", right=True, spare=2),
    Column("USED", right=True),
    Column(""),
    Column("ENDS", right=True, spare=1),
    Column("ALL SPENT", right=True, spare=3),
)
_AUDIT: Final = (
    Column("WHEN"),
    Column("WHO", least=8),
    Column("ORDER"),
    Column("WHOSE", least=12, middle=True),
    Column("BUDGET", least=10),
    Column("AMOUNT", right=True),
    Column("DONE", least=4),
    Column("REASON", spare=1, least=8),
)


def accounts(rows: Sequence[Row], width: int) -> Iterator[Text]:
    """A table of accounts, or that there is none."""
    if not rows:
        yield Text("No budget has an account yet; see budgets: in the configuration.")
        return
    yield from lay_out(_ACCOUNTS, [list(_account(row)) for row in rows], width)


def _account(row: Row) -> Iterator[Cell]:
    unit = row["unit"]
    yield row["scope"]
    yield row["budget"]
    yield _amount(unit, row["spent"])
    yield _amount(unit, row["held"]) if row.get("held") else ""
    yield _amount(unit, row["limit"])
    yield _amount(unit, row["remaining"])
    yield f"{row['used']:.0%}"
    yield Text(row["status"], STATUS.get(row["status"], ""))
    yield until(row["period_end_ns"]) or "never"
    yield until(row.get("projected_ns"))


def _amount(unit: str, value: int) -> str:
    return dollars(value) if unit == "usd" else f"{value:,}"


def audit(found: Sequence[Row], width: int) -> Iterator[Text]:
    """A table of orders."""
    if not found:
        yield Text("Nobody has ordered anything about budgets.")
        return
    yield from lay_out(_AUDIT, [list(_order(one)) for one in found], width)


def _order(one: Row) -> Iterator[Cell]:
    order, unit = one["order"], one.get("account", {}).get("unit", "usd")
    yield moment(order["at_ns"])
    yield order.get("actor", "")
    yield order["action"]
    yield order["scope"]
    yield order["budget"]
    yield _amount(unit, order["amount"]) if order.get("amount") else ""
    yield "yes" if one["done"] else one.get("why", "no")
    yield order.get("reason", "")
