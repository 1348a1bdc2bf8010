"""How often a Guard was asked, and what it answered: a fixed few numbers, however often a blocked agent tries again."""

from __future__ import annotations

import os
import threading
from itertools import count
from typing import Final, NamedTuple

MAX_RULES: Final = 100
"""Rules counted by name; more are counted together as `other`."""
MAX_KEYS: Final = 100
"""Keys counted by name between two reports; more are counted together as `*`."""

Refusals = dict[tuple[str, str], list[int]]
"""Key and rule → calls refused, and calls that would have been."""


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
    denied: int
    """Executions of tools refused: by a rule on tools, or because their session is stopped."""
    errors: int
    """Failures inside the Guard itself; such a call passes."""
    by_rule: dict[str, int]
    """Blocks, enforced and observed, by rule."""
    unsigned: int = 0
    """Records of the control topic that were ignored since no key that is known here has signed them."""


class Counters:
    """Counts without a lock where nothing applies, with one where something does."""

    def __init__(self) -> None:
        self._checks = count()
        self.check = self._checks.__next__  # One C call, and atomic: nothing cheaper loses no count under threads.
        self._reads = 0
        self._totals = dict.fromkeys(("blocked", "would_block", "nudged", "probes", "denied", "errors"), 0)
        self._rules: dict[str, int] = {}
        self._refusals: Refusals = {}
        self._lock = threading.Lock()

    def add(self, name: str, *, rule: str | None = None, key: str = "*") -> None:
        """Count an event, and a block under its rule and the key that is blocked."""
        with self._lock:
            self._totals[name] += 1
            if rule is not None:
                if rule not in self._rules and len(self._rules) >= MAX_RULES:
                    rule = "other"
                self._rules[rule] = self._rules.get(rule, 0) + 1
                self._refuse((key, rule), enforced=name != "would_block")

    def _refuse(self, what: tuple[str, str], *, enforced: bool) -> None:
        if what not in self._refusals and len(self._refusals) >= MAX_KEYS:
            what = "*", what[1]
        counts = self._refusals.setdefault(what, [0, 0])
        counts[0 if enforced else 1] += 1

    def take_refusals(self) -> Refusals:
        """What was refused since this was last asked."""
        with self._lock:
            taken, self._refusals = self._refusals, {}
            return taken

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


class Tally:
    """One number, of this process: after a fork the child begins at 0."""

    def __init__(self) -> None:
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self.value = 0
        """What was counted."""

    def add(self, number: int) -> None:
        """Count so many more."""
        with self._lock:
            self.value += number


SPANS_DROPPED: Final = Tally()
"""Spans that `spanfuse.instrument` could not send: too many waited, or the receiver was away or refused them."""
