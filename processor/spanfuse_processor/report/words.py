"""Numbers in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spanfuse_processor.page.formats import count


def of(part: int, whole: int) -> str:
    """`3 of 12`, as text."""
    return f"{count(part)} of {count(whole)}"


def plural(number: int, name: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{count(number)} {name}{'' if number == 1 else 's'}"


def share(part: float, whole: float) -> float:
    """A share, 0 of nothing."""
    return part / whole if whole else 0.0


def percent(part: float, whole: float) -> str:
    """A share as text, rounded so that neither 0 nor 100 is said of what is not."""
    value = 100 * share(part, whole)
    if 0 < value < 1:
        return "under 1 %"
    return f"{min(99, round(value)) if value < 100 else 100} %"


def spread(one: Mapping[str, Any]) -> str:
    """The numbers of a bin: `4`, or `6 to 7`."""
    return count(one["from"]) if one["from"] == one["to"] else f"{count(one['from'])} to {count(one['to'])}"
