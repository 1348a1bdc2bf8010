"""When operators' orders count: their clocks are their own."""

from __future__ import annotations

from spanfuse_schemas import BudgetOrder


def timely(order: BudgetOrder, now_ns: int) -> BudgetOrder:
    """An order, given now at the latest: one from a clock that is ahead must not end a period before its time, for good."""
    return order if order.at_ns <= now_ns else order.model_copy(update={"at_ns": now_ns})
