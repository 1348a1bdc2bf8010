"""When operators' orders count: their clocks are their own."""

from __future__ import annotations

from typing import TypeVar

from spanfuse_schemas import BudgetOrder, Reset

Order = TypeVar("Order", BudgetOrder, Reset)


def timely(order: Order, now_ns: int) -> Order:
    """An order, given now at the latest: one from a clock that is ahead must not end a period before its time, for good."""
    return order if order.at_ns <= now_ns else order.model_copy(update={"at_ns": now_ns})
