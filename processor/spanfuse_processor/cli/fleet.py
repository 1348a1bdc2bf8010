"""`agents` and `benchmark`: agents and models side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from spanfuse_processor.cli.look import View, looks
from spanfuse_processor.cli.options import Command

if TYPE_CHECKING:
    from spanfuse_processor.cli.api import Api

BY: Final = {
    "cost": "cost_nano_usd",
    "calls": "calls",
    "cost-per-call": "cost_nano_usd_per_call",
    "failures": "failures_per_1000_calls",
    "loops": "loops_per_1000_calls",
}
"""What rows are sorted by → their field."""


def _by_option(default: str) -> Callable[[Command], Command]:
    return click.option(
        "--by",
        type=click.Choice(list(BY)),
        default=default,
        show_default=True,
        help="What comes first, the most on top.",
    )


_limit_option = click.option("--limit", type=click.IntRange(1, 500), default=30, show_default=True, help="How many.")


@click.command()
@_by_option("cost")
@_limit_option
@looks
def agents(api: Api, by: str, limit: int) -> View:
    """Compare agents: calls, spend, loops, failures, and how much of their work goes through a Guard.

    \b
    Examples:
      spanfuse agents
      spanfuse agents --by loops --limit 5
    """
    rows = _ranked(api.get("/v1/agents")["agents"], by, limit)

    def lines(width: int) -> Any:
        from spanfuse_processor.cli.fleet_text import agents_table

        return agents_table(rows, width)

    return View({"agents": rows}, lines)


@click.command()
@_by_option("cost-per-call")
@_limit_option
@looks
def benchmark(api: Api, by: str, limit: int) -> View:
    """Compare models by what they did here: cost of a call, failures, loops per 1,000 calls.

    It is traffic, no test: models that were given other work cannot be compared by it.

    \b
    Examples:
      spanfuse benchmark
      spanfuse benchmark --by loops --format json
    """
    rows = _ranked(api.get("/v1/models")["models"], by, limit)

    def lines(width: int) -> Any:
        from spanfuse_processor.cli.fleet_text import models_table

        return models_table(rows, width)

    return View({"models": rows}, lines)


def _ranked(rows: list[dict[str, Any]], by: str, limit: int) -> list[dict[str, Any]]:
    """The rows that come first, with what is reckoned of them."""
    for row in rows:
        row["failures_per_1000_calls"] = round(1000 * row["failures"] / row["calls"], 3) if row["calls"] else 0.0
    return sorted(rows, key=lambda row: -row[BY[by]])[:limit]
