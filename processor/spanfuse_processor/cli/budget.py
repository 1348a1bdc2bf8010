"""`spanfuse budget`: what is left of budgets, and an operator's orders about them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from spanfuse_processor.cli.group import Problem, SpanfuseGroup
from spanfuse_processor.cli.look import View, show, viewed
from spanfuse_processor.cli.operate import actor
from spanfuse_processor.cli.options import (
    api_option,
    brokers_option,
    config_option,
    format_option,
    print_json,
    printable,
    timeout_option,
    token_option,
)
from spanfuse_processor.cli.types import NANO, Amount, Duration, Key

if TYPE_CHECKING:
    from spanfuse_processor.cli.books import Books

_TOO_MUCH: Final = 2**63
"""Amounts are kept in 64 bits."""


@click.group(cls=SpanfuseGroup)
def budget() -> None:
    """Budgets: what is spent and left, and orders about them.

    Through the API; with --config or --brokers of a stream deployment, through Kafka.
    """


def _at_books(command: Callable[..., None]) -> Callable[..., None]:
    """With the options that say where budgets are looked at: the command gets `books`, open, in their place."""

    @api_option
    @token_option
    @config_option
    @brokers_option
    @wraps(command)
    def run(
        *args: Any, api_url: str, token: str | None, config_path: Path | None, brokers: str | None, **more: Any
    ) -> None:
        with _books(api_url, token, config_path, brokers) as books:
            command(*args, books=books, **more)

    return run


def _orders(command: Callable[..., None]) -> Callable[..., None]:
    """The same, with the options of an order."""
    reason = click.option("--reason", default="", metavar="TEXT", help="Why, for the audit.")
    timeout = timeout_option("How long a worker may take to carry it out.")
    return reason(timeout(_at_books(format_option(command))))


_scope_argument = click.argument("scope", type=Key())
_budget_argument = click.argument("name", metavar="BUDGET")
_amount_argument = click.argument("amount", type=Amount())


@budget.command("list")
@click.option("--scope", type=Key(), default=None, help="Of this scope alone, such as user:u-7.")
@_at_books
@viewed
def list_(scope: str | None, books: Books) -> View:
    """Show the accounts of the periods that run, those used most first.

    \b
    Example:
      spanfuse budget list --watch
    """
    return _accounts(books.rows(scope or ""))


@budget.command()
@_scope_argument
@click.argument("name", metavar="[BUDGET]", required=False)
@_at_books
@viewed
def get(scope: str, name: str | None, books: Books) -> View:
    """Show the accounts of SCOPE, such as user:u-7, or of one of its budgets; exit code 1 if all of one is spent.

    \b
    Example:
      spanfuse budget get user:u-7
    """
    rows = [row for row in books.rows(scope) if name in (None, row["budget"])]
    if not rows:
        raise Problem(f"no budget{f' {name}' if name else ''} holds for {printable(scope)}")
    spent = [row["budget"] for row in rows if row["status"] == "exhausted"]
    raise_it = f"spanfuse budget extend {scope} {spent[0]} AMOUNT" if spent else ""
    return _accounts(rows, printable(f"all of {', '.join(spent)} is spent; raise it with: {raise_it}") if spent else "")


@budget.command()
@_scope_argument
@_budget_argument
@_amount_argument
@_orders
def set(scope: str, name: str, amount: float, **order: Any) -> None:
    """Give BUDGET of SCOPE another limit, from now on; 0: the configured one again.

    \b
    Example:
      spanfuse budget set user:u-7 user/daily 25 --reason "pilot"
    """
    _order("set", scope, name, amount, None, **order)


@budget.command()
@_scope_argument
@_budget_argument
@_amount_argument
@click.option(
    "--for", "lasts_ns", type=Duration(), default=None, help="How long, such as 2h. Default: to the period's end."
)
@_orders
def extend(scope: str, name: str, amount: float, lasts_ns: int | None, **order: Any) -> None:
    """Add AMOUNT to BUDGET of SCOPE for a while; what was blocked for want of it goes on at once.

    \b
    Example:
      spanfuse budget extend team:payments team/monthly 50 --for 2h --reason "month end"
    """
    until_ns = None if lasts_ns is None else time.time_ns() + lasts_ns
    _order("extend", scope, name, amount, until_ns, **order)


@budget.command()
@_scope_argument
@_budget_argument
@_orders
def reset(scope: str, name: str, **order: Any) -> None:
    """Let what was spent of BUDGET by SCOPE in this period count no more.

    \b
    Example:
      spanfuse budget reset user:u-7 user/daily
    """
    _order("reset", scope, name, 0, None, **order)


@budget.command()
@_at_books
@format_option
def rebuild(books: Books, output: str) -> None:
    """Set the ledger of strict budgets to what the spans tell, after it was lost. The same again changes nothing.

    \b
    Example:
      spanfuse budget rebuild --config worker.yaml
    """
    accounts = books.rebuild()
    if output == "json":
        print_json({"accounts": accounts})
    else:
        click.echo(f"{accounts} accounts of strict budgets are set to what the spans tell.")


@budget.command()
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many orders.")
@_at_books
@viewed
def audit(limit: int, books: Books) -> View:
    """Show who ordered what about budgets, when and why, newest first.

    \b
    Example:
      spanfuse budget audit --limit 5
    """
    found = books.audit(limit)

    def lines(width: int) -> Any:
        from spanfuse_processor.cli.budget_text import audit

        return audit(found, width)

    return View({"audit": found}, lines)


def _books(api_url: str, token: str | None, config_path: Path | None, brokers: str | None) -> Books:
    from spanfuse_processor.cli.books import ApiBooks, KafkaBooks

    if config_path is None and brokers is None:
        return ApiBooks(api_url, token)
    return KafkaBooks(config_path, brokers)


def _order(
    action: Literal["set", "extend", "reset"],
    scope: str,
    name: str,
    amount: float,
    expires_at_ns: int | None,
    *,
    books: Books,
    reason: str,
    timeout_s: float,
    output: str,
) -> None:
    row = next((row for row in books.rows(scope) if row["budget"] == name), None)
    if row is None:
        raise Problem(f"no budget {printable(name)} holds for {printable(scope)}; see: spanfuse budget get {scope}")
    units = round(amount * NANO) if row["unit"] == "usd" else round(amount)
    if not units < _TOO_MUCH or (units == 0 and action == "extend"):
        raise Problem(f"{amount:g} is no amount to {action} a budget by")
    done = books.order(
        {
            "id": uuid.uuid4().hex,
            "scope": scope,
            "budget": name,
            "action": action,
            "amount": units,
            "expires_at_ns": expires_at_ns,
            "reason": reason,
            "actor": actor(),
            "at_ns": time.time_ns(),
        },
        timeout_s,
    )
    view = _accounts([done["account"]])
    show(View(done, view.lines), output)
    if not done["done"]:
        raise Problem(done["why"])


def _accounts(rows: list[dict[str, Any]], problem: str = "") -> View:
    rows = sorted(rows, key=lambda row: (-row["used"], row["scope"], row["budget"]))

    def lines(width: int) -> Any:
        from spanfuse_processor.cli.budget_text import accounts

        return accounts(rows, width)

    return View({"budgets": rows}, lines, problem)
