"""coverage: Guards let calls through, and their spans do not come. Such calls are neither judged nor charged.

Both sides are counted by when calls ended, in steps of half a minute, so that calls under way are not missed, nor late spans.
Only steps that ended `grace_s` ago are judged. A report says only to within its interval when its calls ended, so spans are
counted one step further on either side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from spanfuse_processor.core.finding import Finding, action_of
from spanfuse_schemas import Charge, Evidence, Rules
from spanfuse_schemas.charge import QUARTER_NS, Told
from spanfuse_schemas.guard_report import Refused

if TYPE_CHECKING:
    from spanfuse_processor.core.scopes.state import ScopeState
    from spanfuse_schemas.scope_rules import Coverage as Settings

STEP_NS: Final = 30 * 10**9
"""Length of a step, nanoseconds; a quarter of an hour is many whole ones."""
MAX_SOURCES: Final = 256
"""Guards whose last report is remembered, the one silent longest forgotten first; of one that is forgotten, a report that
comes twice counts twice."""
PENDING: Final = 16
"""So many reports of a Guard may come in any order, as they do over several partitions; what is missing then is lost."""
_ALL: Final = 2**PENDING - 1
MAX_KEYS: Final = 64
"""Keys of which it is remembered what was refused, the one refused least forgotten first."""


KEPT: Final = ("due_ns", "judged", "last", "refused", "seen", "sources", "told")


class Coverage:
    """What Guards have told of a scope, and what was seen."""

    __slots__ = ("counts", *KEPT)

    def __init__(self) -> None:
        self.told: dict[int, int] = {}
        """Step → calls that Guards have told of."""
        self.seen: dict[int, int] = {}
        """Step → calls whose spans have come."""
        self.sources: dict[str, tuple[int, int, int, str]] = {}
        """Guard → number of its last report; which of the `PENDING` up to it have come, a bit each, the last the lowest; step
        of the last, and the state that it told."""
        self.refused: dict[str, list[Any]] = {}
        """Key → rule, calls refused, calls that would have been."""
        self.judged = 0
        """Steps before this one were judged."""
        self.last = 0, 0
        """Calls told of and seen, when it was last judged."""
        self.due_ns = 0
        """When there is something to judge though nothing comes, nanoseconds since the Unix epoch; 0: never."""
        self.counts: Counter[str] = Counter()
        """What is counted of the reports of the charge at hand, by the names of `telemetry`."""

    def snapshot(self) -> list[Any]:
        """As plain fields; none of a scope that the rule does not look at."""
        return [getattr(self, name) for name in KEPT] if self.judged else []

    @classmethod
    def restore(cls, fields: list[Any]) -> Coverage:
        """The inverse of `snapshot`."""
        found = cls()
        for name, value in zip(KEPT, fields, strict=False):
            setattr(found, name, value)
        told, seen = found.last
        found.last = told, seen
        return found

    def note(self, charge: Charge, rule: Settings) -> None:
        """Take in a charge: calls that were seen, and what Guards have told."""
        oldest = self.judged - _ns(rule.window_s) // STEP_NS - 1
        for at_ns, calls in _ended(charge):
            step = at_ns // STEP_NS
            if calls and step >= oldest:
                self.seen[step] = self.seen.get(step, 0) + calls
        self.counts = Counter()
        for told in charge.told:
            if self._is_new(told):
                self._take(told, oldest)
        if charge.told:
            self._plan(rule)

    def judge(self, now_ns: int, rule: Settings) -> bool:
        """Compare, if something can be compared that was not; whether too little was seen."""
        end = (now_ns - _ns(rule.grace_s)) // STEP_NS
        if end <= self.judged:
            if self.due_ns and self.due_ns <= now_ns:  # by other settings
                self._plan(rule)
            return False
        self.judged = end
        begin = end - _ns(rule.window_s) // STEP_NS
        for counts in (self.told, self.seen):
            for step in [step for step in counts if step < begin - 1]:
                del counts[step]
        self.last = told, seen = self.window(now_ns, rule)
        self._plan(rule)
        return told >= rule.min_calls and seen < rule.below * told

    def window(self, now_ns: int, rule: Settings) -> tuple[int, int]:
        """Calls told of, and calls seen, within the window that can be judged now."""
        end = (now_ns - _ns(rule.grace_s)) // STEP_NS
        begin = end - _ns(rule.window_s) // STEP_NS
        told = sum(calls for step, calls in self.told.items() if begin <= step < end)
        return told, sum(calls for step, calls in self.seen.items() if begin - 1 <= step <= end)

    def states(self, now_ns: int, rule: Settings) -> Counter[str]:
        """States that Guards have told of within the window → how many of them."""
        since = (now_ns - _ns(rule.grace_s + rule.window_s)) // STEP_NS
        return Counter(state or "unknown" for _, _, step, state in self.sources.values() if step >= since)

    def _is_new(self, told: Told) -> bool:
        known = self.sources.pop(told.source, None)
        begun = told.seq - 1 if told.seq > PENDING else 0, _ALL, 0, told.state
        last, came, step, state = known or begun
        ahead = told.seq - last
        again = ahead <= 0 and (-ahead >= PENDING or bool(came >> -ahead & 1))
        if ahead > PENDING:
            lost, last, came = (_ALL & ~came).bit_count() + ahead - PENDING, told.seq, 1
        elif ahead > 0:
            came = came << ahead | 1
            lost, last, came = ahead - (came >> PENDING).bit_count(), told.seq, came & _ALL
        else:
            lost, came = 0, came | (0 if again else 1 << -ahead)
        if ahead > 0:
            step, state = told.until_ns // STEP_NS, told.state
        self.sources[told.source] = last, came, step, state
        if len(self.sources) > MAX_SOURCES:
            del self.sources[next(iter(self.sources))]
        self.counts.update({"guards/reports": not again, "guards/reports_again": again, "guards/reports_lost": lost})
        return not again

    def _take(self, told: Told, oldest: int) -> None:
        for step, calls in spread(told):
            if step >= oldest:
                self.told[step] = self.told.get(step, 0) + calls
        self.counts.update({"guards/calls": told.calls, **told.counts})
        for one in told.refusals:
            self.counts.update({"guards/blocked": one.blocked, "guards/would_block": one.would_block})
            self._refuse(one)

    def _refuse(self, one: Refused) -> None:
        known = self.refused.pop(one.key, (one.rule, 0, 0))
        if len(self.refused) >= MAX_KEYS:
            del self.refused[min(self.refused, key=lambda key: sum(self.refused[key][1:]))]
        self.refused[one.key] = [one.rule, known[1] + one.blocked, known[2] + one.would_block]

    def _plan(self, rule: Settings) -> None:
        step = min((step for step in self.told if step >= self.judged), default=None)
        self.due_ns = 0 if step is None else (step + 1) * STEP_NS + _ns(rule.grace_s)


def detect(state: ScopeState, charge: Charge, rules: Rules) -> Finding | None:
    """Count, and compare by the clock of the scope."""
    rule = rules.coverage
    if rule.mode == "off":
        return None
    state.coverage.note(charge, rule)
    return look(state, state.last_ns, rules)


def look(state: ScopeState, now_ns: int, rules: Rules) -> Finding | None:
    """Compare by any clock: nothing has come since."""
    rule, coverage = rules.coverage, state.coverage
    if rule.mode == "off":
        coverage.due_ns = 0
        return None
    if not coverage.judge(now_ns, rule):
        return None
    told, seen = coverage.last
    who = {"global": "all agents"}.get(state.kind, f"{state.kind} `{state.name}`")
    return Finding(
        rule="coverage",
        mode=rule.mode,
        action=action_of(rule.mode),
        message=f"Of {told} model calls of {who} that Guards let through within {rule.window_s:g} s, the spans of {seen} have "
        f"come ({100 * seen / told:.3g} %): the others are neither judged nor charged. Look for a process that ends before its "
        "spans are sent, streams that are not instrumented, a sampler, and another name of the agent or team on its spans.",
        evidence=Evidence(
            count=told, threshold=100 * rule.below, value=round(100 * seen / told, 3), unit="% of calls",
            since_ns=now_ns - _ns(rule.grace_s + rule.window_s),
        ),
    )  # fmt: skip


def row(window: tuple[int, int]) -> dict[str, Any]:
    """What is shown of a window: calls told of, calls seen, and the share of these; none where Guards have told of none."""
    told, seen = window
    return {"guarded": told, "seen": seen, "share": round(min(1.0, seen / told), 4) if told else None}


def _ns(seconds: float) -> int:
    return int(seconds * 10**9)


def _ended(charge: Charge) -> Iterator[tuple[int, int]]:
    """When the calls of a charge have ended, as far as it tells."""
    calls = charge.calls
    for quarter, (_, _, earlier) in charge.earlier.items():
        calls -= earlier
        yield (quarter + 1) * QUARTER_NS - 1, earlier
    yield charge.at_ns, calls


def spread(told: Told) -> Iterator[tuple[int, int]]:
    """The calls of a report by step: evenly over its time, which is long where the receiver was away."""
    first, last = told.since_ns // STEP_NS, told.until_ns // STEP_NS
    steps = min(max(1, last - first + 1), 512)
    for i in range(steps):
        calls = told.calls * (i + 1) // steps - told.calls * i // steps
        if calls:
            yield last - steps + 1 + i, calls
