"""A host's part in the ledger, where the ledger fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanfuse.ledger import connect
from spanfuse_processor.config import Config
from spanfuse_processor.errors import SpanfuseError, UnavailableError
from spanfuse_processor.hosts.ledger import LedgerLink
from spanfuse_schemas import BudgetOrder


@pytest.fixture
def link(tmp_path: Path) -> LedgerLink:
    """Of a ledger that answers and has never heard of any budget, as one that came back empty."""
    budgets = {"user": {"limit_usd": 5, "strength": "strict"}}
    address = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    made = LedgerLink(Config.model_validate({"budgets": budgets, "extensions": {"ledger": {"address": address}}}))
    made.define()
    made.ledger.close()
    made.ledger = connect(f"sqlite:///{tmp_path / 'empty.sqlite'}")
    return made


def order(amount: int) -> BudgetOrder:
    return BudgetOrder(id="o", scope="user:u", budget="user", action="extend", amount=amount, at_ns=1)


def test_a_ledger_that_came_back_empty_is_told_the_budgets_with_the_next_comparison(link: LedgerLink) -> None:
    assert link.booked() == {}
    assert [budget.name for budget in link.ledger.budgets()] == ["user"]


def test_or_with_the_next_order(link: LedgerLink) -> None:
    assert link.order(order(1))


def test_an_order_that_can_never_be_carried_out_is_not_to_be_given_again(link: LedgerLink) -> None:
    with pytest.raises(SpanfuseError) as refused:
        link.order(order(2**62))
    assert not isinstance(refused.value, UnavailableError)
