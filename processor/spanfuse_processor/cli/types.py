"""What the arguments of commands are: keys, amounts, lengths of time."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Any, Final, get_args

import click
from click.shell_completion import CompletionItem

NANO: Final = 10**9
_LENGTH: Final = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


class Key(click.ParamType):
    """The key of a breaker, such as `session:checkout-42`."""

    name = "key"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Keys against which something stands."""
        from spanfuse_processor.cli.completion import known

        found = known(ctx, "/v1/breakers", "breakers", query=incomplete, limit=100)
        return [CompletionItem(row["key"]) for row in found if row["key"].startswith(incomplete)]

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The key with its name in the one form that keys have, if its scope is known."""
        from spanfuse_schemas.decision import Scope
        from spanfuse_schemas.names import normal_key

        if any("\ud800" <= character <= "\udfff" for character in value):
            self.fail(f"{value!r} is not UTF-8", param, ctx)
        scopes = get_args(Scope)
        key = normal_key(value)
        scope, colon, name = key.partition(":")
        if scope not in scopes or not colon or not name:
            self.fail(f"{value!r} is no key: SCOPE:NAME, with one of the scopes {', '.join(scopes)}", param, ctx)
        return key


class AgentName(click.ParamType):
    """The name of an agent."""

    name = "agent"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The agents that the API knows and whose names begin like that."""
        from spanfuse_processor.cli.completion import known

        return [
            CompletionItem(row["agent"])
            for row in known(ctx, "/v1/agents", "agents")
            if row["agent"].startswith(incomplete)
        ]


class Duration(click.ParamType):
    """A length of time such as `90s`, `2h` or `1d`, in nanoseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The length."""
        if isinstance(value, int):
            return value
        found = _LENGTH.fullmatch(value)
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


class Moment(click.ParamType):
    """A moment, in nanoseconds since the Unix epoch: ISO 8601 (UTC where it names no zone), a length of time ago such as `7d`
    or `-7d`, or seconds since the epoch."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The moment."""
        if isinstance(value, int):
            return value
        found = _LENGTH.fullmatch(value.removeprefix("-"))
        if found is not None:
            return time.time_ns() - round(float(found[1]) * _SECONDS[found[2]] * NANO)
        if value.isdecimal():
            return int(value) * NANO
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is no time, such as 2026-01-31T12:00, 7d (ago) or seconds since the epoch", param, ctx
            )
        at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return round(at.timestamp() * 1_000_000) * 1000
