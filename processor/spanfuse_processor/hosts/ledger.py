"""A host's part in the ledger of strict budgets: it publishes what Guards go by, hands operators' orders on, and compares what
was settled there with what the spans tell."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from genai_prices import data_snapshot

from spanfuse.ledger import Account, Definitions, Ledger, LedgerError, Unavailable, connect
from spanfuse_processor.config import Config, Pricing
from spanfuse_processor.errors import SpanfuseError, UnavailableError
from spanfuse_processor.hosts.reading import prices_of
from spanfuse_schemas import Budget, BudgetOrder, Policy, Tokens
from spanfuse_schemas.budget import NANO

log = logging.getLogger(__name__)

MAX_SHOWN: Final = 10
"""Accounts that differ most, told one by one."""
_SAMPLE: Final = 1_000
"""Tokens whose price is asked for, of each class: below every tier."""


@dataclass(slots=True)
class Comparison:
    """What was spent according to the ledger, and according to the spans, in the periods that run."""

    at_ns: int = 0
    """When it was made, nanoseconds since the Unix epoch; 0: never."""
    reachable: bool | None = None
    """None: it has not been asked yet."""
    accounts: int = 0
    """Accounts compared."""
    differing: int = 0
    """Of them, those that differ. While calls are under way their spans are not here yet, so some do for a moment."""
    difference_nano_usd: int = 0
    """Sum of the differences of money, without sign, nano-dollars."""
    most: list[dict[str, Any]] = field(default_factory=list)
    """The accounts that differ most: `account`, `spans`, `ledger`, in the budget's unit."""

    def as_dict(self) -> dict[str, Any]:
        """For `status`."""
        return asdict(self)


class LedgerLink:
    """The ledger that the configuration names. Blocking: to be used on a thread.

    Args:
        config: budgets, mode, prices and the address.

    Raises:
        SpanfuseError: if the address is none, or its library is not installed.
    """

    def __init__(self, config: Config) -> None:
        settings = config.extensions.ledger
        if settings is None:
            raise SpanfuseError("extensions.ledger is not set")
        try:
            self.ledger: Ledger = connect(settings.address.get_secret_value())
        except (ValueError, ImportError) as error:
            raise SpanfuseError(f"extensions.ledger: {error}") from None
        self._pricing = config.pricing
        self.comparison = Comparison()
        self.follow(config.policy())

    def follow(self, policy: Policy) -> None:
        """Go by another policy, which is still to be published."""
        self._policy = policy
        self._strict: dict[str, Budget] = {b.name: b for b in policy.budgets if b.strength == "strict"}
        self.named = [f"{b.scope}:{b.match}" for b in self._strict.values() if b.is_of_one]
        """Scopes that have an account before anything is spent."""

    def define(self) -> None:
        """Publish budgets, mode and prices.

        Raises:
            UnavailableError: the ledger does not answer.
        """
        pricing = self._pricing
        definitions = Definitions(
            mode=self._policy.mode,
            budgets=self._policy.budgets,
            prices=price_table(pricing),
            fallback=(
                round(pricing.fallback_input_usd_per_mtok * NANO),
                round(pricing.fallback_output_usd_per_mtok * NANO),
            ),
        )
        try:
            self.ledger.define(definitions)
        except LedgerError as error:
            raise UnavailableError(f"the ledger: {error}") from None

    def order(self, order: BudgetOrder) -> bool:
        """Carry out an operator's order, if it is about a strict budget; whether it was.

        Raises:
            UnavailableError: the ledger does not answer.
            SpanfuseError: it cannot be carried out.
        """
        if order.budget not in self._strict:
            return False
        try:
            self._define_again()
            return self.ledger.order(order)
        except Unavailable as error:
            raise UnavailableError(f"the ledger: {error}") from None
        except LedgerError as error:
            raise SpanfuseError(f"the ledger: {error}") from None

    def _define_again(self) -> None:
        """Where nothing is defined nothing is held back: so it is in a ledger that has lost its data between two questions."""
        if self._strict and not self.ledger.budgets():
            log.warning(
                "the ledger knows no budgets; they are published, and `spanfuse budget rebuild` sets what was spent"
            )
            self.define()

    def with_holds(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Accounts with what is held for calls under way; as they are while the ledger does not answer."""
        scopes = {row["scope"] for row in rows if row["budget"] in self._strict}
        try:
            found = self.ledger.accounts(scopes.pop()) if len(scopes) == 1 else self.ledger.accounts() if scopes else []
        except LedgerError:
            return rows
        held = {account.account: account.held for account in found}
        return [{**row, "held": held.get(row["account"], 0)} for row in rows]

    def rebuild(self, rows: Iterable[dict[str, Any]]) -> int:
        """Set what was spent to what the spans tell; how many accounts. The same again changes nothing.

        Args:
            rows: accounts of strict and other budgets; the others are passed over.

        Raises:
            UnavailableError: the ledger does not answer.
        """
        found = [_account(row) for row in rows if row["budget"] in self._strict]
        self.define()
        try:
            self.ledger.rebuild(found)
        except LedgerError as error:
            raise UnavailableError(f"the ledger: {error}") from None
        return len(found)

    def booked(self) -> dict[str, dict[str, int]] | None:
        """What was settled, in the periods that run: scope → account → amount. None: the ledger does not answer."""
        now_ns = time.time_ns()
        try:
            self._define_again()
            accounts = self.ledger.accounts()
        except (LedgerError, UnavailableError) as error:
            if self.comparison.reachable or not self.comparison.at_ns:
                log.warning("the ledger cannot be compared: %s", error)
            self.comparison = Comparison(now_ns, False)
            return None
        found: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for account in accounts:
            if account.period_start_ns <= now_ns < account.period_end_ns and account.budget in self._strict:
                found[account.scope][account.account] = account.spent
        return found

    def compare(self, booked: Mapping[str, Mapping[str, int]], rows: Iterable[dict[str, Any]]) -> Comparison:
        """Compare what was settled with what the spans tell.

        Args:
            booked: from the ledger.
            rows: accounts by the spans, of all scopes that either knows; those of other budgets are passed over.
        """
        told = {row["account"]: row for row in rows if row["budget"] in self._strict}
        settled = {account: amount for accounts in booked.values() for account, amount in accounts.items()}
        found, differing = Comparison(time.time_ns(), True), list[tuple[int, dict[str, Any]]]()
        for account in {*told, *settled}:
            spans, ledger = told[account]["spent"] if account in told else 0, settled.get(account, 0)
            found.accounts += bool(spans or ledger)
            if spans != ledger:
                found.differing += 1
                differing.append((abs(spans - ledger), {"account": account, "spans": spans, "ledger": ledger}))
                if account in told and told[account]["unit"] == "usd":
                    found.difference_nano_usd += abs(spans - ledger)
        found.most = [row for _, row in sorted(differing, key=lambda one: -one[0])[:MAX_SHOWN]]
        self.comparison = found
        return found

    def close(self) -> None:
        """Let the connection go."""
        self.ledger.close()


def _account(row: dict[str, Any]) -> Account:
    ends = {"period_end_ns": row["period_end_ns"]} if row["period_end_ns"] else {}
    return Account(
        account=row["account"],
        scope=row["scope"],
        budget=row["budget"],
        unit=row["unit"],
        spent=row["spent"],
        period_start_ns=row["period_start_ns"],
        **ends,
    )


def price_table(pricing: Pricing) -> dict[str, tuple[int, int]]:
    """Model → nano-dollars per million input and output tokens; where providers differ, the dearest."""
    found: dict[str, tuple[int, int]] = {}
    prices, now_ns = prices_of(pricing), time.time_ns()
    for provider in data_snapshot.get_snapshot().providers:
        for model in provider.models:
            each = [
                prices.cost(provider.id, model.id, tokens, now_ns)
                for tokens in (Tokens(input=_SAMPLE), Tokens(output=_SAMPLE))
            ]
            if all(source == "computed" for _, source in each):
                costs = [cost * (1_000_000 // _SAMPLE) for cost, _ in each]
                known = found.get(model.id, (0, 0))
                found[model.id] = max(known[0], costs[0]), max(known[1], costs[1])
    for name, own in pricing.models.items():
        found[name.rpartition("/")[2]] = round(own.input_usd_per_mtok * NANO), round(own.output_usd_per_mtok * NANO)
    return found
