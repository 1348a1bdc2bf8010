"""What those who apply messages and store states tell, to whoever listens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from spanfuse_processor.core.pipeline import Outcome
from spanfuse_processor.core.scopes.stage import ScopeOutcome
from spanfuse_processor.hosts.facts import Mode


class Told(Protocol):
    """Who listens; nothing of it may wait or fail."""

    def applied(self, message: Any, outcome: Outcome, mode: Mode) -> None:
        """A message of `spanfuse.calls` was applied."""

    def combined(self, message: Any, outcomes: Iterable[ScopeOutcome], mode: Mode) -> None:
        """A message of `spanfuse.charges` was applied."""

    def stored(self, name: str, state: Any, value: bytes, partition: int) -> None:
        """A state is stored.

        Args:
            value: as it is in the table.
        """

    def forgotten(self, state: str, name: str, partition: int) -> None:
        """A session or scope is over."""


class Nobody:
    """Where nobody listens."""

    def applied(self, message: Any, outcome: Outcome, mode: Mode) -> None:
        """Nothing is done."""

    def combined(self, message: Any, outcomes: Iterable[ScopeOutcome], mode: Mode) -> None:
        """Nothing is done."""

    def stored(self, name: str, state: Any, value: bytes, partition: int) -> None:
        """Nothing is done."""

    def forgotten(self, state: str, name: str, partition: int) -> None:
        """Nothing is done."""
