"""adaptive: what sessions of an agent usually come to, and which are far beyond it.

The baseline is kept for every agent, and recommends limits whatever the rule's mode is. It never limits by itself: it moves
with what it would limit, so that a slow decline would raise its own limit, and a limit would lower its own baseline.
"""

from __future__ import annotations

from typing import NamedTuple

from spanfuse_processor.core.finding import Finding, action_of
from spanfuse_processor.core.scopes.buckets import CALLS, COST, bucket, percentile
from spanfuse_processor.core.scopes.state import MAX_WARNED, ScopeState
from spanfuse_schemas import Evidence, Grown, Rules
from spanfuse_schemas.charge import hashed_name
from spanfuse_schemas.scope_rules import Adaptive


class Baseline(NamedTuple):
    """What sessions of an agent come to: each is the upper bound of a bucket, and so up to 15 % too high."""

    sessions: int
    """Sessions that the agent has begun."""
    calls_p50: int
    """Model calls of the median session."""
    calls_p95: int
    """Model calls that 95 % of the sessions do not exceed."""
    cost_p50: int
    """Cost of the median session, nano-dollars."""
    cost_p95: int
    """Cost that 95 % of the sessions do not exceed, nano-dollars."""


def baseline(state: ScopeState, apart: Grown | None = None) -> Baseline:
    """The percentiles as they are now; sessions that still run count with what they have come to.

    Args:
        apart: a session to leave out, so that it is not compared with itself.
    """
    calls, cost = state.lengths, state.spends
    if apart is not None:
        calls = _without(calls, bucket(apart.calls, CALLS))
        cost = _without(cost, bucket(apart.cost_nano_usd, COST))
    return Baseline(
        sum(calls.values()),
        percentile(calls, 0.5, CALLS),
        percentile(calls, 0.95, CALLS),
        percentile(cost, 0.5, COST),
        percentile(cost, 0.95, COST),
    )


def _without(histogram: dict[int, int], at: int) -> dict[int, int]:
    return histogram | {at: histogram[at] - 1} if histogram.get(at, 0) > 0 else histogram


def detect(state: ScopeState, grown: Grown, rules: Rules) -> Finding | None:
    """Compare a session that has grown into another bucket; once a session."""
    rule, name = rules.adaptive, hashed_name(grown.session)
    if rule.mode == "off" or sum(state.lengths.values()) < rule.sessions or name in state.warned:
        return None
    usual = baseline(state, grown)
    finding = _long(grown, usual, rule) or _dear(grown, usual, rule)
    if finding is not None:
        state.warned = [*state.warned[-(MAX_WARNED - 1) :], name]
    return finding


def _long(grown: Grown, usual: Baseline, rule: Adaptive) -> Finding | None:
    limit = max(rule.factor * usual.calls_p95, rule.floor_calls)
    if grown.calls < limit:
        return None
    said = f"made {grown.calls} model calls; 95 % of its agent's {usual.sessions} other sessions make at most {usual.calls_p95}"
    return _finding(said, grown.calls, limit, "calls", grown, rule)


def _dear(grown: Grown, usual: Baseline, rule: Adaptive) -> Finding | None:
    limit = max(rule.factor * usual.cost_p95 / 1e9, rule.floor_usd)
    cost = grown.cost_nano_usd / 1e9
    if cost < limit:
        return None
    p95 = usual.cost_p95 / 1e9
    said = f"cost {cost:.4g} USD; 95 % of its agent's {usual.sessions} other sessions cost at most {p95:.4g} USD"
    return _finding(said, cost, limit, "USD", grown, rule)


def _finding(said: str, value: float, limit: float, unit: str, grown: Grown, rule: Adaptive) -> Finding:
    return Finding(
        rule="adaptive",
        mode=rule.mode,
        action=action_of(rule.mode),
        message=f"The session has {said}. Look at it; to stop such sessions, set a limit of {limit:.4g} {unit}.",
        evidence=Evidence(
            count=grown.calls, threshold=limit, value=value, unit=unit, cost_nano_usd=grown.cost_nano_usd
        ),
    )
