"""Charges: what the calls of a batch add to each scope that sessions share.

Sums are kept by who made the calls, and told by scope at the end, since many share all their names: a batch makes one charge
per scope, however many calls it holds. They are kept by the quarter of an hour in which the calls ended, too: budget periods
begin with one, and a batch may hold the end of one period and the begin of the next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from operator import add
from typing import Any, Final

from spanfuse_processor.core.guards import told_of
from spanfuse_processor.core.scopes.buckets import CALLS, COST, STEPS, bucket
from spanfuse_processor.core.session import Roster, SessionState
from spanfuse_schemas import Alias, Call, Charge, Detection, Grown
from spanfuse_schemas.charge import MAX_NAMES, QUARTER_NS, Told, hashed_name
from spanfuse_schemas.guard_report import GuardReport
from spanfuse_schemas.scope_rules import Adaptive

MAX_GROWN: Final = 64
"""Sessions that one charge tells the size of."""
_LOOPS: Final = ("repeat.", "near.", "cycle", "stagnation")

_hashed = lru_cache(maxsize=8192)(hashed_name)

Sums = list[int]
"""Cost, calls, input tokens, output tokens, failures, sessions begun, loops, end of the latest call, start of the latest."""
Who = tuple[str, str, str, str, int]
"""Agent, user, team, model, and the quarter of an hour in which the calls ended."""
Apart = dict[str, dict[int, tuple[int, int, int]]]
"""Scope → quarter → cost, tokens, calls."""
_NOTHING: Final = [0] * 9
_NEVER: Final = 2**63 - 1
_ADDED: Final = 7
"""So many of them are added up; of the others the latest counts."""


class _Agent:
    """What a charge of an agent has besides sums."""

    __slots__ = ("grown", "lengths", "spends", "turned")

    def __init__(self) -> None:
        self.turned: dict[str, bool] = {}
        """Session → whether its breaker has opened, or else closed again; what came last."""
        self.lengths: dict[int, int] = {}
        self.spends: dict[int, int] = {}
        self.grown: dict[str, Grown] = {}

    def more(self) -> dict[str, Any]:
        """The fields that are not empty."""
        found: dict[str, Any] = {
            "tripped": _names((s,) for s, opened in self.turned.items() if opened),
            "recovered": _names((s,) for s, opened in self.turned.items() if not opened),
            "lengths": _changes(self.lengths),
            "spends": _changes(self.spends),
            "grown": tuple(self.grown.values()),
        }
        return {name: value for name, value in found.items() if value}


class Ledger:
    """Adds up the calls of one batch.

    Args:
        all_traces: traces have a budget, and each call is charged to its own; otherwise only those that tell of a trace more
            than its session does.
    """

    def __init__(self, all_traces: bool = False) -> None:
        self._all_traces = all_traces
        self._sums: dict[Who, Sums] = {}
        self._traces: dict[tuple[str, int], Sums] = {}
        """By trace and quarter."""
        self._members: set[tuple[str, str]] = set()
        """Agents, and sessions in which they were at work."""
        self._trace_members: set[tuple[str, str, str]] = set()
        """The same of traces, the trace first."""
        self._agents: dict[str, _Agent] = {}
        self._told: defaultdict[str, list[Told]] = defaultdict(list)
        """What Guards have told, by scope."""
        self._late: dict[tuple[str, int], Sums] = {}
        """What users and teams owe for calls of earlier batches, by scope and quarter."""

    def add(self, call: Call, session: SessionState, owner: str, adaptive: Adaptive) -> None:
        """Add a model call that was counted.

        Args:
            session: its session, with the call.
            owner: agent that the session counted as one of before the call; empty: none.
            adaptive: settings of the rule for the call's agent.
        """
        agent, key = call.agent, session.key
        who = (agent, call.user, call.team, call.model, call.end_ns // QUARTER_NS)
        sums = self._sums.get(who)
        if sums is None:
            sums = self._sums[who] = list(_NOTHING)
        _add(sums, call, session)
        self._members.add((agent, key))
        roster = session.roster
        if call.session_source == "trace":
            if roster is not None and roster.turns:
                self._trace_members.add((call.trace_id, key, roster.first))
                self._trace(call, session)
            elif self._all_traces:
                self._spend(call, session)
        elif call.parent_span_id:  # a call without a parent is alone in its trace
            self._trace(call, session)
        elif self._all_traces:
            self._spend(call, session)
        if roster is not None and (first := owner_of(session)):
            calls, cost = _size(session)
            if cost >= roster.bound or calls in STEPS or not owner:
                self._grow(call, session, roster, first, not owner, adaptive)

    def more(self, call: Call) -> None:
        """Add what a call that was counted has cost more than its estimate."""
        quarter = call.end_ns // QUARTER_NS
        who = (call.agent, call.user, call.team, call.model, quarter)
        owed = [self._sums.setdefault(who, list(_NOTHING))]
        if self._all_traces:
            owed.append(self._traces.setdefault((call.trace_id, quarter), list(_NOTHING)))
        for sums in owed:
            _owe(sums, call.cost_nano_usd, 0, call.tokens.input, call.tokens.output, call.end_ns, call.start_ns)

    def _trace(self, call: Call, session: SessionState) -> None:
        self._spend(call, session)
        self._trace_members.add((call.trace_id, session.key, call.agent))

    def _spend(self, call: Call, session: SessionState) -> None:
        at = call.trace_id, call.end_ns // QUARTER_NS
        sums = self._traces.get(at)
        if sums is None:
            sums = self._traces[at] = list(_NOTHING)
        _add(sums, call, session)

    def _grow(
        self, call: Call, session: SessionState, roster: Roster, first: str, new: bool, adaptive: Adaptive
    ) -> None:
        """Move the session into the buckets of its agent that it has come to."""
        calls, cost = _size(session)
        length, spend = bucket(calls, CALLS), bucket(cost, COST)
        roster.bound = COST[spend + 1] if spend + 1 < len(COST) else _NEVER
        agent = self._agents.get(first) or self._agents.setdefault(first, _Agent())
        if new:
            _move(agent.lengths, None, length)
            _move(agent.spends, None, spend)
        else:
            if calls in STEPS:
                _move(agent.lengths, length - 1, length)
            spent = bucket(cost - call.cost_nano_usd, COST)
            if spend != spent:
                _move(agent.spends, spent, spend)
        large = calls >= adaptive.floor_calls or cost >= adaptive.floor_usd * 1e9
        if adaptive.mode != "off" and large and len(agent.grown) < MAX_GROWN:
            agent.grown[session.key] = Grown.model_construct(session=session.key, calls=calls, cost_nano_usd=cost)

    def found(self, call: Call, session: SessionState, detections: Iterable[Detection]) -> None:
        """Count the loops among detections that a call led to; one that was foreseen counts then."""
        fired = session.fired
        loops = sum(
            d.action == "block" and d.rule.startswith(_LOOPS) and (d.conditional or f"{d.rule}:block?" not in fired)
            for d in detections
        )
        if loops:
            roster = session.roster
            model = call.model or (roster.model if roster is not None else "")
            who = (call.agent, call.user, call.team, model, call.end_ns // QUARTER_NS)
            sums = self._sums.setdefault(who, list(_NOTHING))
            sums[6] += loops
            sums[7], sums[8] = max(sums[7], call.end_ns), max(sums[8], call.start_ns)

    def turned(self, call: Call, session: SessionState) -> None:
        """The session's breaker has opened or closed. For an outage of the provider it opens without the agent's doing."""
        roster, decision = session.roster, session.decision
        if decision is not None and decision.rule == "errors":
            return
        name = session.awaited or (roster.first if roster is not None else "")
        if not name:
            return
        agent = self._agents.get(name) or self._agents.setdefault(name, _Agent())
        agent.turned[session.key] = decision is not None
        who = (name, call.user, call.team, call.model, call.end_ns // QUARTER_NS)
        sums = self._sums.setdefault(who, list(_NOTHING))
        sums[7] = max(sums[7], call.end_ns)

    def owe(self, alias: Alias) -> None:
        """Charge to a user or a team calls that were counted before they were known."""
        for kind, name in (("user", alias.user), ("team", alias.team)):
            if name:
                sums = self._late.setdefault((f"{kind}:{name}", alias.to_ns // QUARTER_NS), list(_NOTHING))
                _owe(
                    sums, alias.cost_nano_usd, alias.calls, alias.input_tokens, alias.output_tokens, alias.to_ns,
                    alias.from_ns,
                )  # fmt: skip

    def report(self, report: GuardReport) -> None:
        """Enter what a Guard has told."""
        for scope, told in told_of(report):
            self._told[scope].append(told)

    def charges(self, source: str, offset: int) -> list[Charge]:
        """One charge per scope, identified by where the batch came from."""
        scopes: dict[str, Sums] = {}
        apart = self._apart()
        for (agent, user, team, model, quarter), sums in self._sums.items():
            names = (("agent", agent), ("user", user), ("team", team), ("model", model), ("global", "*"))
            for kind, name in names:
                if name:
                    _enter(scopes, apart, f"{kind}:{name}", quarter, sums)
        for (scope, quarter), sums in self._late.items():
            _enter(scopes, apart, scope, quarter, sums)
        for owner in self._agents:
            scopes.setdefault(f"agent:{owner}", list(_NOTHING))
        at_ns = max((sums[7] for sums in scopes.values()), default=0)
        for (trace, quarter), sums in self._traces.items():
            _enter(scopes, apart, f"trace:{trace}", quarter, sums)
        more = self._more()
        for scope, told in self._told.items():
            scopes.setdefault(scope, list(_NOTHING))
            at_ns = max(at_ns, *(one.until_ns for one in told))
            more[scope] = more.get(scope, {}) | {"told": tuple(told)}
        for scope, quarters in (apart or {}).items():
            if len(quarters) > 1:
                more[scope] = more.get(scope, {}) | {"earlier": _earlier(quarters, scopes[scope])}
        return [_charge(scope, sums, more.get(scope, {}), source, offset, at_ns) for scope, sums in scopes.items()]

    def _apart(self) -> Apart | None:
        """Where sums are kept by quarter; none: all calls ended in the same one, as nearly always."""
        quarters = {who[4] for who in self._sums}
        quarters.update(quarter for _, quarter in (*self._late, *self._traces))
        return {} if len(quarters) > 1 else None

    def _more(self) -> dict[str, dict[str, Any]]:
        """What charges of agents and traces have besides sums."""
        members: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
        for agent, session in self._members:
            members[f"agent:{agent}"].append((session,))
        for trace, session, agent in self._trace_members:
            members[f"trace:{trace}"].append((session, agent))
        found: dict[str, dict[str, Any]] = {scope: {"members": _names(who)} for scope, who in members.items()}
        for name, extra in self._agents.items():
            found[f"agent:{name}"] = found.get(f"agent:{name}", {}) | extra.more()
        return found


def owner_of(session: SessionState) -> str:
    """Agent as one of whose the session counts; empty: of none yet."""
    if session.past is not None and session.past.first:
        return session.past.first
    return session.roster.first if session.roster is not None else ""


def _size(session: SessionState) -> tuple[int, int]:
    """Calls and cost of a session, with what was before its reset."""
    past = session.past
    if past is None:
        return session.calls, session.cost_nano_usd
    return past.calls + session.calls, past.cost_nano_usd + session.cost_nano_usd


def _charge(scope: str, sums: Sums, more: dict[str, Any], source: str, offset: int, at_ns: int) -> Charge:
    cost, calls, tokens_in, tokens_out, failures, sessions, loops, at, started = sums
    if failures or sessions or loops:
        more = more | {"failures": failures, "sessions": sessions, "loops": loops}
    return Charge.made(
        scope=scope, source=source, offset=offset, cost_nano_usd=cost, calls=calls, input_tokens=tokens_in,
        output_tokens=tokens_out, at_ns=at or at_ns, started_ns=started, **more,
    )  # fmt: skip


def _add(sums: Sums, call: Call, session: SessionState) -> None:
    tokens = call.tokens
    sums[0] += call.cost_nano_usd
    sums[1] += 1
    sums[2] += tokens.input
    sums[3] += tokens.output
    if call.error_class == "provider":
        sums[4] += 1
    if session.calls == 1 and session.past is None:
        sums[5] += 1
    if call.end_ns > sums[7]:
        sums[7] = call.end_ns
    if call.start_ns > sums[8]:
        sums[8] = call.start_ns


def _owe(sums: Sums, cost: int, calls: int, tokens_in: int, tokens_out: int, end_ns: int, start_ns: int) -> None:
    """Add what is to be paid, and nothing else of a call."""
    sums[0] += cost
    sums[1] += calls
    sums[2] += tokens_in
    sums[3] += tokens_out
    sums[7], sums[8] = max(sums[7], end_ns), max(sums[8], start_ns)


def _join(total: Sums, sums: Sums) -> None:
    total[:_ADDED] = map(add, total, sums[:_ADDED])
    total[_ADDED:] = map(max, total[_ADDED:], sums[_ADDED:])


def _enter(scopes: dict[str, Sums], apart: Apart | None, scope: str, quarter: int, sums: Sums) -> None:
    _join(scopes.setdefault(scope, list(_NOTHING)), sums)
    if apart is not None:
        quarters = apart.setdefault(scope, {})
        cost, tokens, calls = quarters.get(quarter, (0, 0, 0))
        quarters[quarter] = cost + sums[0], tokens + sums[2] + sums[3], calls + sums[1]


def _earlier(quarters: dict[int, tuple[int, int, int]], total: Sums) -> dict[int, tuple[int, int, int]]:
    """All but the quarter of the latest call."""
    last = total[7] // QUARTER_NS
    return {quarter: sums for quarter, sums in quarters.items() if quarter != last and any(sums)}


def _move(histogram: dict[int, int], before: int | None, after: int) -> None:
    histogram[after] = histogram.get(after, 0) + 1
    if before is not None:
        histogram[before] = histogram.get(before, 0) - 1


def _changes(histogram: Mapping[int, int]) -> dict[int, int]:
    return {at: change for at, change in histogram.items() if change}


def _names(names: Iterable[tuple[str, ...]]) -> tuple[int, ...]:
    """Their hashes; of too many the smallest, so that what is left out is what a reader would leave out as well."""
    hashes = sorted(_hashed(*name) for name in names)
    return tuple(hashes[:MAX_NAMES])
