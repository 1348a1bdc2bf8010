"""Charges: what the calls of a batch add to each scope that sessions share.

Sums are kept by who made the calls, and told by scope at the end, since many share all their names: a batch makes one charge
per scope, however many calls it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from spanfuse_processor.core.scopes.buckets import COST, STEPS, bucket
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Call, Charge, Detection, Grown
from spanfuse_schemas.charge import MAX_NAMES, hashed_name
from spanfuse_schemas.scope_rules import Adaptive

MAX_GROWN: Final = 64
"""Sessions that one charge tells the size of."""
_LOOPS: Final = ("repeat.", "near.", "cycle", "stagnation")

_hashed = lru_cache(maxsize=8192)(hashed_name)

Sums = list[int]
"""Cost, calls, input tokens, output tokens, failures, sessions begun, loops, end of the latest call, start of the latest."""
_NOTHING: Final = [0] * 9
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


class Ledger:
    """Adds up the calls of one batch."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str, str, str], Sums] = {}
        self._traces: dict[str, Sums] = {}
        self._members: dict[str, dict[tuple[str, ...], None]] = {}
        """Scope → who was at work in it: sessions of an agent, sessions with their agent of a trace."""
        self._agents: dict[str, _Agent] = {}

    def add(self, call: Call, session: SessionState, owner: str, adaptive: Adaptive) -> None:
        """Add a model call that was counted.

        Args:
            session: its session, with the call.
            owner: agent that the session counted as one of before the call; empty: none.
            adaptive: settings of the rule for the call's agent.
        """
        who = (call.agent, call.user, call.team, call.model)
        sums = self._sums.get(who)
        if sums is None:
            sums = self._sums[who] = list(_NOTHING)
        _add(sums, call, session)
        if call.agent:
            self._members.setdefault(f"agent:{call.agent}", {})[call.session,] = None
        roster = session.roster
        if call.session_source == "trace":
            if roster is not None and roster.turns:
                self._trace(call, session, roster.first)
        elif call.parent_span_id:  # a call without a parent is alone in its trace
            self._trace(call, session, call.agent)
        if roster is not None and roster.first:
            self._grow(call, session, roster.first, not owner, adaptive)

    def _trace(self, call: Call, session: SessionState, first: str) -> None:
        sums = self._traces.get(call.trace_id)
        if sums is None:
            sums = self._traces[call.trace_id] = list(_NOTHING)
        _add(sums, call, session)
        members = self._members.setdefault(f"trace:{call.trace_id}", {})
        members[call.session, first] = members[call.session, call.agent] = None

    def _grow(self, call: Call, session: SessionState, owner: str, new: bool, adaptive: Adaptive) -> None:
        """Move the session into the buckets it has come to."""
        calls, cost = session.calls, session.cost_nano_usd
        length = STEPS.get(calls)
        spend = bucket(cost, COST)
        spent = bucket(cost - call.cost_nano_usd, COST)
        if length is None and spend == spent and not new:
            return
        agent = self._agents.get(owner) or self._agents.setdefault(owner, _Agent())
        if length is not None:
            _move(agent.lengths, None if new else length - 1, length)
        if new or spend != spent:
            _move(agent.spends, None if new else spent, spend)
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
            sums = self._sums.setdefault((call.agent, call.user, call.team, model), list(_NOTHING))
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
        sums = self._sums.setdefault((name, call.user, call.team, call.model), list(_NOTHING))
        sums[7] = max(sums[7], call.end_ns)

    def charges(self, source: str, offset: int) -> list[Charge]:
        """One charge per scope, identified by where the batch came from."""
        scopes: dict[str, Sums] = {}
        for (agent, user, team, model), sums in self._sums.items():
            names = (("agent", agent), ("user", user), ("team", team), ("model", model), ("global", "*"))
            for kind, name in names:
                if name:
                    _join(scopes.setdefault(f"{kind}:{name}", list(_NOTHING)), sums)
        for owner in self._agents:
            scopes.setdefault(f"agent:{owner}", list(_NOTHING))
        at_ns = max((sums[7] for sums in scopes.values()), default=0)
        for trace, sums in self._traces.items():
            scopes[f"trace:{trace}"] = sums
        return [self._charge(scope, sums, source, offset, at_ns) for scope, sums in scopes.items()]

    def _charge(self, scope: str, sums: Sums, source: str, offset: int, at_ns: int) -> Charge:
        cost, calls, tokens_in, tokens_out, failures, sessions, loops, at, started = sums
        kind, _, name = scope.partition(":")
        more: dict[str, Any] = {}
        if scope in self._members:
            more["members"] = _names(self._members[scope])
        if kind == "agent" and (agent := self._agents.get(name)) is not None:
            turned = agent.turned
            more |= {
                "tripped": _names((s,) for s, opened in turned.items() if opened),
                "recovered": _names((s,) for s, opened in turned.items() if not opened),
                "lengths": _changes(agent.lengths),
                "spends": _changes(agent.spends),
                "grown": tuple(agent.grown.values()),
            }
        return Charge(
            scope=scope, source=source, offset=offset, cost_nano_usd=cost, calls=calls, input_tokens=tokens_in,
            output_tokens=tokens_out, at_ns=at or at_ns, started_ns=started, failures=failures, sessions=sessions,
            loops=loops, **more,
        )  # fmt: skip


def _add(sums: Sums, call: Call, session: SessionState) -> None:
    tokens = call.tokens
    sums[0] += call.cost_nano_usd
    sums[1] += 1
    sums[2] += tokens.input
    sums[3] += tokens.output
    sums[4] += call.error_class == "provider"
    sums[5] += session.calls == 1
    if call.end_ns > sums[7]:
        sums[7] = call.end_ns
    if call.start_ns > sums[8]:
        sums[8] = call.start_ns


def _join(total: Sums, sums: Sums) -> None:
    for i in range(_ADDED):
        total[i] += sums[i]
    for i in range(_ADDED, len(sums)):
        total[i] = max(total[i], sums[i])


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
