"""`price.unknown`: a model without a known price is used, for the first time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from spanfuse_processor.exporters.alerts.signal import Signal

RULE: Final = "price.unknown"
MAX_MODELS: Final = 1_000
"""Models remembered, those told last: names may be made up without end."""


class Unpriced:
    """Models that were told."""

    def __init__(self) -> None:
        self._told: dict[str, None] = {}

    def look(self, models: Mapping[str, int], now_ns: int) -> Iterator[Signal]:
        """Each for the first time.

        Args:
            models: without a known price → how many calls.
        """
        for model, calls in models.items():
            if model in self._told:
                continue
            self._told[model] = None
            if len(self._told) > MAX_MODELS:
                del self._told[next(iter(self._told))]
            yield Signal(
                rule=RULE, key=f"model:{model}", severity="warning", at_ns=now_ns, title=f"Model {model} has no known price",
                message=f"{calls} calls of model `{model}` cost what pricing.fallback_… says, since its price is not known: "
                "budgets count them so. Set its price under pricing.models.",
            )  # fmt: skip

    def snapshot(self) -> Any:
        """As JSON."""
        return list(self._told)

    def restore(self, found: Any) -> None:
        """The inverse."""
        self._told = dict.fromkeys(found)
