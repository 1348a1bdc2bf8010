"""`spanfuse budget`: what is left of budgets, and an operator's orders about them."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import click

from spanfuse_processor.cli.group import Problem, SpanfuseGroup
from spanfuse_processor.cli.operate import Key, actor
from spanfuse_processor.cli.options import (
    api_option,
    brokers_option,
    config_option,
    dollars,
    format_option,
    print_json,
    printable,
)

if TYPE_CHECKING:
    from spanfuse_processor.cli.books import Books

Command = TypeVar("Command", bound=Callable[..., Any])

NANO: Final = 10**9
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_MAX: Final = 2**63


class Duration(click.ParamType):
    """A length of time such as `90s`, `2h` or `1d`, in nanoseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The length."""
        if isinstance(value, int):
            return value
        found = _SPAN.fullmatch(value)
        if found is None:
            self.fail(f"{value!r} is no length of time, such as 90s, 30m, 2h or 1d", param, ctx)
        return round(float(found[1]) * _SECONDS[found[2]] * NANO)


class Amount(click.ParamType):
    """A positive number; of money in USD."""

    name = "amount"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        text = str(value).removeprefix("$").replace(",", "")
        try:
            found = float(text)
        except ValueError:
            found = -1.0
        if not 0 <= found < 1e15:
            self.fail(f"{value!r} is no amount, such as 25, $2.50 or 100000", param, ctx)
        return found


@click.group(cls=SpanfuseGroup)
def budget() -> None:
    """Budgets: what is spent and left, and orders about them.

    Through the API of `spanfuse up`; with --config or --brokers of a stream deployment, through Kafka.
    """


_where = (api_option, config_option, brokers_option, format_option)


def _with(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


_budget_argument = click.argument("name", metavar="BUDGET")
_reason_option = click.option("--reason", default="", metavar="TEXT", help="Why, for the audit.")
_timeout_option = click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(0.1, 600),
    default=15.0,
    show_default=True,
    help="How long a worker may take to carry it out.",
)


@budget.command("list")
@click.option("--scope", type=Key(), default=None, help="Of this scope alone, such as user:u-7.")
@_with(*_where)
def list_(scope: str | None, api_url: str, config_path: Path | None, brokers: str | None, output: str) -> None:
    """Show the accounts of the periods that run, those used most first.

    \b
    Example:
      spanfuse budget list
    """
    with _books(api_url, config_path, brokers) as books:
        rows = books.rows(scope or "")
    _show(rows, output)


@budget.command()
@click.argument("scope", type=Key())
@click.argument("name", metavar="[BUDGET]", required=False)
@_with(*_where)
def get(scope: str, name: str | None, api_url: str, config_path: Path | None, brokers: str | None, output: str) -> None:
    """Show the accounts of SCOPE, such as user:u-7, or of one of its budgets; exit code 1 if all of one is spent.

    \b
    Example:
      spanfuse budget get user:u-7
    """
    with _books(api_url, config_path, brokers) as books:
        rows = [row for row in books.rows(scope) if name in (None, row["budget"])]
    if not rows:
        raise Problem(f"no budget{f' {name}' if name else ''} holds for {printable(scope)}")
    _show(rows, output)
    spent = [row["budget"] for row in rows if row["status"] == "exhausted"]
    if spent:
        raise Problem(
            f"all of {', '.join(spent)} is spent; raise it with: spanfuse budget extend {scope} {spent[0]} AMOUNT"
        )


@budget.command()
@click.argument("scope", type=Key())
@_budget_argument
@click.argument("amount", type=Amount())
@_with(_reason_option, _timeout_option, *_where)
def set(
    scope: str,
    name: str,
    amount: float,
    reason: str,
    timeout_s: float,
    api_url: str,
    config_path: Path | None,
    brokers: str | None,
    output: str,
) -> None:
    """Give BUDGET of SCOPE another limit, from now on; 0: the configured one again.

    \b
    Example:
      spanfuse budget set user:u-7 user/daily 25 --reason "pilot"
    """
    with _books(api_url, config_path, brokers) as books:
        _order(books, "set", scope, name, amount, None, reason, timeout_s, output)


@budget.command()
@click.argument("scope", type=Key())
@_budget_argument
@click.argument("amount", type=Amount())
@click.option(
    "--for", "lasts_ns", type=Duration(), default=None, help="How long, such as 2h. Default: to the period's end."
)
@_with(_reason_option, _timeout_option, *_where)
def extend(
    scope: str,
    name: str,
    amount: float,
    lasts_ns: int | None,
    reason: str,
    timeout_s: float,
    api_url: str,
    config_path: Path | None,
    brokers: str | None,
    output: str,
) -> None:
    """Add AMOUNT to BUDGET of SCOPE for a while; what was blocked for want of it goes on at once.

    \b
    Example:
      spanfuse budget extend team:payments team/monthly 50 --for 2h --reason "month end"
    """
    with _books(api_url, config_path, brokers) as books:
        until = None if lasts_ns is None else time.time_ns() + lasts_ns
        _order(books, "extend", scope, name, amount, until, reason, timeout_s, output)


@budget.command()
@click.argument("scope", type=Key())
@_budget_argument
@_with(_reason_option, _timeout_option, *_where)
def reset(
    scope: str,
    name: str,
    reason: str,
    timeout_s: float,
    api_url: str,
    config_path: Path | None,
    brokers: str | None,
    output: str,
) -> None:
    """Let what was spent of BUDGET by SCOPE in this period count no more.

    \b
    Example:
      spanfuse budget reset user:u-7 user/daily
    """
    with _books(api_url, config_path, brokers) as books:
        _order(books, "reset", scope, name, 0, None, reason, timeout_s, output)


@budget.command()
@_with(*_where)
def rebuild(api_url: str, config_path: Path | None, brokers: str | None, output: str) -> None:
    """Set the ledger of strict budgets to what the spans tell, after it was lost. The same again changes nothing.

    \b
    Example:
      spanfuse budget rebuild --config worker.yaml
    """
    with _books(api_url, config_path, brokers) as books:
        accounts = books.rebuild()
    if output == "json":
        print_json({"accounts": accounts})
    else:
        click.echo(f"{accounts} accounts of strict budgets are set to what the spans tell.")


@budget.command()
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many orders.")
@_with(*_where)
def audit(limit: int, api_url: str, config_path: Path | None, brokers: str | None, output: str) -> None:
    """Show who ordered what about budgets, when and why, newest first.

    \b
    Example:
      spanfuse budget audit --limit 5
    """
    with _books(api_url, config_path, brokers) as books:
        found = books.audit(limit)
    if output == "json":
        print_json({"audit": found})
    else:
        _print_audit(found)


def _books(api_url: str, config_path: Path | None, brokers: str | None) -> Books:
    from spanfuse_processor.cli.books import ApiBooks, KafkaBooks

    if config_path is None and brokers is None:
        return ApiBooks(api_url)
    return KafkaBooks(config_path, brokers)


def _order(
    books: Books,
    action: Literal["set", "extend", "reset"],
    scope: str,
    name: str,
    amount: float,
    expires_at_ns: int | None,
    reason: str,
    timeout_s: float,
    output: str,
) -> None:
    row = next((row for row in books.rows(scope) if row["budget"] == name), None)
    if row is None:
        raise Problem(f"no budget {printable(name)} holds for {printable(scope)}; see: spanfuse budget get {scope}")
    units = round(amount * NANO) if row["unit"] == "usd" else round(amount)
    if not units < _MAX or (units == 0 and action == "extend"):
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
    if output == "json":
        print_json(done)
    else:
        _show([done["account"]], "text")
    if not done["done"]:
        raise Problem(done["why"])


def _show(rows: list[dict[str, Any]], output: str) -> None:
    rows = sorted(rows, key=lambda row: (-row["used"], row["scope"], row["budget"]))
    if output == "json":
        print_json({"budgets": rows})
        return
    from rich.text import Text

    from spanfuse_processor.cli.tables import PipedConsole, table

    if not rows:
        click.echo("No budget has an account yet; see budgets: in the configuration.")
        return
    columns = ("scope", "=budget", ">spent", ">held", ">limit", ">remaining", ">used", "=status", "=ends")
    shown = table("Budgets", *columns)
    for row in rows:
        shown.add_row(*(Text(printable(cell)) for cell in _cells(row)))
    PipedConsole().print(shown)


def _cells(row: dict[str, Any]) -> Iterable[str]:
    unit = row["unit"]
    yield row["scope"]
    yield row["budget"]
    yield _amount(unit, row["spent"])
    yield _amount(unit, row["held"]) if row.get("held") else ""
    yield _amount(unit, row["limit"])
    yield _amount(unit, row["remaining"])
    yield f"{row['used']:.0%}"
    yield row["status"]
    yield _moment(row["period_end_ns"])


def _amount(unit: str, value: int) -> str:
    return dollars(value) if unit == "usd" else f"{value:,}"


def _moment(at_ns: int | None) -> str:
    return "never" if at_ns is None else f"{datetime.fromtimestamp(at_ns / NANO, UTC):%Y-%m-%d %H:%M}Z"


def _print_audit(found: list[dict[str, Any]]) -> None:
    from rich.text import Text

    from spanfuse_processor.cli.tables import PipedConsole, table

    shown = table("Orders about budgets", "=when", "=who", "=order", "scope", "=budget", ">amount", "reason", "=done")
    for one in found:
        order = one["order"]
        unit = one.get("account", {}).get("unit", "usd")
        amount = _amount(unit, order["amount"]) if order.get("amount") else ""
        cells = (
            _moment(order["at_ns"]), order.get("actor", ""), order["action"], order["scope"], order["budget"], amount,
            order.get("reason", ""), "yes" if one["done"] else one.get("why", "no"),
        )  # fmt: skip
        shown.add_row(*(Text(printable(cell)) for cell in cells))
    PipedConsole().print(shown)
