"""Budgets: what may be spent, by whom, in which period; and which of them hold for a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import Any, Final, Literal, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from spanfuse_schemas.periods import FOREVER_NS, Period, PeriodName, period_of, zone
from spanfuse_schemas.record import SCHEMA_VERSION, Record
from spanfuse_schemas.rule import Rule

BudgetScope = Literal["session", "trace", "agent", "user", "team", "global"]
Unit = Literal["usd", "tokens", "steps"]
"""`usd` is counted in nano-dollars, `tokens` are input and output together, `steps` are model calls."""

NANO: Final = 1_000_000_000
ALL: Final = 10_000
"""So many parts are the whole limit."""
ANYBODY: Final = "*"
SCOPES: Final[tuple[BudgetScope, ...]] = ("session", "trace", "agent", "user", "team", "global")


def dollars(nano_usd: int) -> str:
    """Nano-dollars for people: four decimals, and of less than a tenth of a cent so many that two digits show."""
    decimals = 4
    while decimals < 9 and 0 < nano_usd < 10 ** (10 - decimals):
        decimals += 1
    return f"${nano_usd / NANO:,.{decimals}f}" if nano_usd else "$0"


class Terms(Rule):
    """How much may be spent, by whom, in which time. Exactly one of the limits is given."""

    match: str = Field(default=ANYBODY, alias="for")
    """Id of the session, trace, agent, user or team; `*` and `?` as in a shell. Default `*`: each has a budget of this size of
    its own, also one that was never seen before. Of several budgets of one scope, unit and period, the one that names an
    identity most exactly holds for it."""
    limit_usd: float | None = Field(default=None, gt=0, le=1e9)
    """Limit, USD."""
    limit_tokens: int | None = Field(default=None, gt=0, lt=2**53)
    """Limit, input and output tokens."""
    limit_steps: int | None = Field(default=None, gt=0, lt=2**53)
    """Limit, model calls."""
    period: PeriodName = "total"
    """After which it begins anew: by the calendar of `time_zone`; weeks begin on Monday."""
    time_zone: str = "UTC"
    """Name in the IANA database, such as `Europe/Berlin`."""
    strength: Literal["soft", "strict"] = "soft"
    """`soft`: kept from the spans of calls that have ended, so that those in flight may exceed it; `strict`: Guards reserve the
    estimate of a call before it is made, and nothing is admitted that does not fit."""
    thresholds: tuple[float, ...] = Field(default=(0.5, 0.8, 0.9), max_length=16)
    """Shares of the limit at which is told how far it is used, each once a period. All of it is always told."""
    on_unavailable: Literal["open", "closed"] = "open"
    """For a strict one, what a Guard does while the ledger cannot be reached: let calls pass within a local allowance, or
    refuse them."""

    model_config = Rule.model_config | {"validate_by_alias": True, "validate_by_name": True, "serialize_by_alias": True}

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        zone(value)
        return value

    @field_validator("thresholds")
    @classmethod
    def _shares(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if any(not 0 < share < 1 for share in value):
            raise ValueError("a threshold is a share of the limit, between 0 and 1")
        return tuple(sorted(set(value)))

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        given = [limit for limit in (self.limit_usd, self.limit_tokens, self.limit_steps) if limit is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of limit_usd, limit_tokens and limit_steps")
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy, without what follows from the old values."""
        copied = super().model_copy(update=update, deep=deep)
        for name in ("unit", "limit", "levels", "slot"):
            copied.__dict__.pop(name, None)
        return copied

    @cached_property
    def unit(self) -> Unit:
        """What is counted."""
        if self.limit_usd is not None:
            return "usd"
        return "tokens" if self.limit_tokens is not None else "steps"

    @cached_property
    def limit(self) -> int:
        """The limit in its unit: nano-dollars, tokens or calls."""
        if self.limit_usd is not None:
            return max(1, round(self.limit_usd * NANO))
        return self.limit_tokens or self.limit_steps or 0

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """The shares that are told, all of it last, as parts of `ALL`."""
        return (*sorted({max(1, round(share * ALL)) for share in self.thresholds}), ALL)

    def period_at(self, at_ns: int) -> Period:
        """The period in which a moment lies."""
        return period_of(self.period, self.time_zone, at_ns)


class Budget(Terms):
    """What may be spent. `name` is its id, such as `user/daily`."""

    name: str
    """Its id."""
    scope: BudgetScope
    """Whose money it is."""

    @property
    def is_of_one(self) -> bool:
        """Whether it is one identity's, or everybody's together, so that it has an account before anything is spent."""
        return self.scope == "global" or not {"*", "?", "["} & {*self.match}

    @cached_property
    def slot(self) -> str:
        """Under which the stream keeps its accounts: with another unit or period it begins anew."""
        return f"{self.period[0]}{self.unit[0]}{self.name}"

    @model_validator(mode="after")
    def _everybody(self) -> Self:
        if self.scope == "global" and self.match != ANYBODY:
            raise ValueError("the global budget is everybody's: it has no `for`")
        return self


class BudgetOrder(Record):
    """An operator's order about one budget of one identity."""

    v: int = SCHEMA_VERSION
    """Schema version."""
    id: str = Field(min_length=1, max_length=256)
    """Identity under which it is carried out once."""
    scope: str = Field(min_length=1, max_length=4096)
    """Whose, such as `user:u-7` or `global:*`."""
    budget: str
    """Name of the budget."""
    action: Literal["set", "extend", "reset"]
    """`set`: another limit, from now on; `extend`: so much more until `expires_at_ns`, by default to the end of the period;
    `reset`: what was spent in this period counts no more."""
    amount: int = Field(default=0, ge=0, lt=2**63)
    """For `set` and `extend`, in the budget's unit (nano-dollars, tokens, calls); to `set` 0 gives back the configured one."""
    expires_at_ns: int | None = Field(default=None, ge=0, lt=2**63)
    """Until when an extension holds, nanoseconds since the Unix epoch; none: to the end of the period."""
    reason: str = Field(default="", max_length=1000)
    """Why, for the audit."""
    actor: str = Field(default="", max_length=200)
    """Who ordered it."""
    at_ns: int = Field(ge=0, lt=2**63)
    """When, nanoseconds since the Unix epoch; from the future: when it is received."""


class Audited(Record):
    """What became of an operator's order about a budget: a record of the topic `spanfuse.audit`."""

    v: int = SCHEMA_VERSION
    """Schema version."""
    order: BudgetOrder
    """The order, with who gave it, when and why."""
    done: bool
    """Whether it was carried out."""
    why: str = ""
    """If not: why."""
    account: dict[str, Any] = Field(default_factory=dict)
    """The account afterwards, as it is listed; empty where there is none."""


class Share(NamedTuple):
    """A budget as it holds for one identity."""

    budget: Budget
    scope: str
    """Whose, such as `user:u-7`."""

    def key(self, period: Period) -> str:
        """Name of its account in a period."""
        start = "" if period.end_ns == FOREVER_NS else f"|{period.start_ns // NANO}"
        return f"{self.scope}|{self.budget.name}{start}"


class BudgetBook:
    """Which budgets hold for whom.

    Args:
        budgets: all budgets, by any order.
    """

    def __init__(self, budgets: Iterable[Budget]) -> None:
        self._by_scope: dict[str, tuple[Budget, ...]] = {
            scope: tuple(b for b in budgets if b.scope == scope and b.mode != "off") for scope in SCOPES
        }
        self._of = lru_cache(maxsize=8192)(self._find)

    def of(self, kind: str, name: str) -> tuple[Share, ...]:
        """The budgets of one identity, such as (`user`, `u-7`), as configured."""
        return self._of(kind, name) if self._by_scope.get(kind) else ()

    def all_of(self, identities: Mapping[str, str]) -> tuple[Share, ...]:
        """The budgets of a call. All hold; the tightest wins.

        Args:
            identities: kind → name, such as `{"user": "u-7"}`; empty names are passed over.
        """
        found = [share for kind, name in identities.items() if name for share in self.of(kind, name)]
        return (*found, *self.of("global", ANYBODY))

    def _find(self, kind: str, name: str) -> tuple[Share, ...]:
        best: dict[tuple[Unit, PeriodName], Budget] = {}
        for budget in self._by_scope[kind]:
            if fnmatchcase(name, budget.match):
                known = best.get((budget.unit, budget.period))
                if known is None or _exactness(budget, name) > _exactness(known, name):
                    best[budget.unit, budget.period] = budget
        return tuple(Share(budget, f"{kind}:{name}") for budget in best.values())


def _exactness(budget: Budget, name: str) -> tuple[bool, int]:
    """How exactly a budget names an identity: by its id, else by how much of it."""
    return budget.match == name, len(budget.match.replace("*", "").replace("?", ""))
