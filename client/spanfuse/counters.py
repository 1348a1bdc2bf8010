"""How often a Guard was asked, and what it answered: a fixed few numbers, however often a blocked agent tries again."""

from __future__ import annotations

import threading
from itertools import count
from typing import NamedTuple

MAX_RULES = 100
"""Rules counted by name; more are counted together as `other`."""


class Counts(NamedTuple):
    """Counters at one moment, of this process."""

    checks: int
    """Checks made."""
    allowed: int
    """Checks that passed, probes and observed blocks included."""
    blocked: int
    """Checks refused."""
    would_block: int
    """Checks that a block applied to which is only observed."""
    nudged: int
    """Checks answered with a nudge."""
    probes: int
    """Calls let through a half-open breaker."""
    errors: int
    """Failures inside the Guard itself; such a call passes."""
    by_rule: dict[str, int]
    """Blocks, enforced and observed, by rule."""


class Counters:
    """Counts without a lock where nothing applies, with one where something does."""

    def __init__(self) -> None:
        self._checks = count()
        self.check = self._checks.__next__  # One C call, and atomic: nothing cheaper loses no count under threads.
        self._reads = 0
        self._totals = dict.fromkeys(("blocked", "would_block", "nudged", "probes", "errors"), 0)
        self._rules: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, name: str, *, rule: str | None = None) -> None:
        """Count an event, and a block under its rule."""
        with self._lock:
            self._totals[name] += 1
            if rule is not None:
                if rule not in self._rules and len(self._rules) >= MAX_RULES:
                    rule = "other"
                self._rules[rule] = self._rules.get(rule, 0) + 1

    def snapshot(self) -> Counts:
        """The counters now."""
        with self._lock:
            checks = next(self._checks) - self._reads  # Reading the counter takes a number out of it.
            self._reads += 1
            return Counts(
                checks=checks,
                allowed=checks - self._totals["blocked"],
                **self._totals,
                by_rule=dict(self._rules),
            )
