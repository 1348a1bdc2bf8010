"""handoffs: agents of one session take turns strictly, A, B, A, B, …, round after round, and only talk.

Each message is new, every request succeeds, nothing is fast: all that shows is the form. A tool call that does not merely
hand on the task is work, and the count begins anew. Equal texts are an affair of `cycle` and `repeat`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from spanfuse_processor.core.finding import Finding, action_of, evidence
from spanfuse_processor.core.session import Roster, SessionState
from spanfuse_processor.core.turn import Turn, agent_hash, number
from spanfuse_schemas import Call
from spanfuse_schemas.scope_rules import Handoffs

PERIODS = range(2, 5)
"""Lengths of a round that are looked for, turns."""


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Note whose turn it is, and count the rounds."""
    call, roster = turn.call, session.roster
    if call.kind == "llm":
        if roster is None:
            _begin(session, call)
            return None
        roster.first, roster.model = roster.first or call.agent, call.model or roster.model
    if roster is None:
        return None
    rule = turn.rules.handoffs
    if call.called and roster.turns and _works(call.called, rule.tools):
        roster.turns, roster.runs = [roster.last], []
        return None
    if call.kind == "tool" or call.error_type or not call.agent:
        return None
    agent = agent_hash(call.agent)
    if agent == roster.last:
        return None
    _take_turn(session, roster, agent, call)
    return _judge(session, turn, roster, rule)


def _begin(session: SessionState, call: Call) -> None:
    roster = session.roster = Roster()
    roster.first, roster.model = call.agent, call.model
    roster.last = agent_hash(call.agent)


def _works(called: Sequence[str], handing: Sequence[str]) -> bool:
    return not all(any(fnmatchcase(tool, pattern) for pattern in handing) for tool in called)


def _take_turn(session: SessionState, roster: Roster, agent: int, call: Call) -> None:
    turns = roster.turns = [*(roster.turns or [roster.last])[-PERIODS[-1] :], agent]
    before = roster.runs or [0] * len(PERIODS)
    roster.runs = [
        run + 1 if len(turns) > p and turns[-1 - p] == agent else 0 for p, run in zip(PERIODS, before, strict=True)
    ]
    roster.last = agent
    if not any(before):
        roster.span_id, roster.since_ns = number(call.span_id), call.end_ns
        roster.spent = session.cost_nano_usd - call.cost_nano_usd


def _judge(session: SessionState, turn: Turn, roster: Roster, rule: Handoffs) -> Finding | None:
    if rule.mode == "off":
        return None
    for period, run in zip(PERIODS, roster.runs, strict=True):
        if period <= rule.max_period and run >= (rule.rounds - 1) * period:
            return _finding(session, turn, roster, rule, period, run // period + 1)
    return None


def _finding(session: SessionState, turn: Turn, roster: Roster, rule: Handoffs, period: int, rounds: int) -> Finding:
    return Finding(
        rule="handoffs",
        mode=rule.mode,
        action=action_of(rule.mode),
        message=f"The agents have handed the task around {rounds} times, in rounds of {period} turns, and only talked. Have "
        "one of them decide, or finish with what is known.",
        evidence=evidence(
            session,
            turn.call,
            (roster.span_id, roster.since_ns, roster.spent),
            count=rounds,
            threshold=rule.rounds,
            unit="rounds",
            period=period,
        ),
    )
