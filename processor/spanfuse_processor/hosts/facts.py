"""What the core's outcomes tell the read model: names and numbers, nothing of what a model was told or said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, get_args

from spanfuse_processor.core.budgets import parts_of
from spanfuse_processor.core.pipeline import Outcome
from spanfuse_processor.core.scopes.stage import ScopeOutcome
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.steps import mix
from spanfuse_processor.core.turn import number
from spanfuse_processor.exporters.readmodel.facts import MINUTE_NS, Facts, Owner, Sums, valid
from spanfuse_processor.exporters.readmodel.model import SeriesKind, SessionRow, StepRow
from spanfuse_schemas import Call, Charge, Decision, Detection

Mode = Literal["observe", "enforce"]
Action = Literal["", "allow", "nudge", "block"]
SHOWN: Final[dict[str, SeriesKind]] = {kind: kind for kind in get_args(SeriesKind)}
"""Kinds of scopes of which minutes are kept."""


def facts_of(outcome: Outcome, mode: Mode) -> Facts:
    """What a batch adds of sessions, but for their rows."""
    facts = Facts(decisions=outcome.decisions, taken=outcome.taken)
    facts.gone = [*outcome.taken, *(moved.origin for moved in outcome.moved)]
    rules = _rules(outcome.detections)
    decided: dict[tuple[str, int], Action] = {(d.key, d.issued_at_ns): d.action for d in outcome.decisions}
    for call in outcome.steps:
        _own(facts.owners, call)
        on = decided.get((f"session:{call.session}", call.end_ns), "")
        facts.steps.append((call.session, step_of(call, rules.get(call.span_id, ()), on)))
    _add_found(facts, outcome.detections, mode)
    _add_charges(facts, outcome.charges)
    _add_blocks(facts, outcome.decisions)
    return facts


def scope_facts(outcome: ScopeOutcome, mode: Mode, facts: Facts | None = None) -> Facts:
    """What charges add, to what is there."""
    facts = facts or Facts()
    facts.decisions = [*facts.decisions, *outcome.decisions]
    _add_found(facts, outcome.detections, mode)
    _add_blocks(facts, outcome.decisions)
    return facts


def rows_of(states: Iterable[SessionState]) -> list[SessionRow]:
    """The rows of sessions; one of a trace whose calls belong elsewhere has none."""
    return [row_of(state) for state in states if state.calls or state.tools or state.ways is None]


def row_of(state: SessionState) -> SessionRow:
    """A session's row, as far as its state tells."""
    held, roster = state.decision, state.roster
    standing = {} if held is None else {
        "state": held.state, "action": held.action, "mode": held.mode, "rule": held.rule, "message": valid(held.message),
        "expires_at_ns": held.expires_at_ns, "lapses": held.lapses,
    }  # fmt: skip
    return SessionRow.made(
        session=state.key,
        agent=valid(roster.first) if roster is not None else "",
        model=valid(roster.model) if roster is not None else "",
        calls=state.calls,
        tools=state.tools,
        tokens=state.tokens,
        cost_nano_usd=state.cost_nano_usd,
        first_ns=state.first_ns,
        last_ns=state.last_ns,
        epoch=state.epoch,
        **standing,
    )


def step_of(call: Call, rules: tuple[str, ...], decided: Action) -> StepRow:
    """A call as a step; `loop` is its identity."""
    return StepRow.made(
        at_ns=call.end_ns,
        lasted_ns=max(0, call.end_ns - call.start_ns),
        span_id=call.span_id,
        trace_id=call.trace_id,
        kind=call.kind,
        agent=valid(call.agent),
        model=valid(call.model),
        tools=tuple(map(valid, call.called)),
        tokens=call.tokens.input + call.tokens.output,
        cost_nano_usd=call.cost_nano_usd,
        error=valid(call.error_type),
        loop=identity(call),
        rules=rules,
        decision=decided,
    )


def identity(call: Call) -> int:
    """What makes two steps equal: of a model call the deed that it answers and what that brought, of one that starts over its
    prompt; of a tool execution its arguments and its result. 0: unknown. 63 bits, as SQLite has them."""
    if call.kind == "tool":
        done, seen = call.action, call.output
        if done is None:
            return 0
        brought = number(seen.canon) if seen is not None else 0
        return (mix(number(done.canon), brought) if brought else number(done.canon)) >> 1
    if call.input is None:
        return 0
    if call.answers is None:
        return number(call.input.canon) >> 1
    return mix(number(call.answers.canon), number(call.input.canon)) >> 1


def _own(owners: dict[str, Owner], call: Call) -> None:
    before = owners.get(call.session) or Owner()
    owners[call.session] = Owner(
        valid(call.agent) or before.agent,
        valid(call.user) or before.user,
        valid(call.team) or before.team,
        valid(call.model) or before.model,
    )


def _rules(detections: Iterable[Detection]) -> dict[str, tuple[str, ...]]:
    """Span → the rules that fired on it."""
    found: dict[str, tuple[str, ...]] = {}
    for detection in detections:
        span = detection.evidence.last_span_id
        found[span] = (*found.get(span, ()), detection.rule)
    return found


def _add_found(facts: Facts, detections: Iterable[Detection], mode: Mode) -> None:
    for detection in detections:
        unenforced = detection.action == "block" and (mode == "observe" or detection.mode == "shadow")
        facts.found.append((detection, unenforced))


def _add_charges(facts: Facts, charges: Iterable[Charge]) -> None:
    for charge in charges:
        whose, _, name = charge.scope.partition(":")
        kind = SHOWN.get(whose)
        if kind is None:
            continue
        for at_ns, (cost, tokens, calls) in parts_of(charge):
            if calls or cost or tokens:
                sums = _minute(facts, kind, valid(name), at_ns)
                sums.calls += calls
                sums.cost_nano_usd += cost
                sums.tokens += tokens


def _add_blocks(facts: Facts, decisions: Iterable[Decision]) -> None:
    """Breakers that opened: for all, and for those whose session or own breaker it is."""
    for decision in decisions:
        if decision.action != "block":
            continue
        kind, _, name = decision.key.partition(":")
        owner = facts.owners.get(name, Owner()) if kind == "session" else Owner()
        named: dict[SeriesKind, str] = {"global": "*", "agent": owner.agent, "model": owner.model, "team": owner.team}
        if kind in SHOWN:
            named[SHOWN[kind]] = valid(name)
        for whose, of in named.items():
            if of:
                _minute(facts, whose, of, decision.issued_at_ns).blocks += 1


def _minute(facts: Facts, kind: SeriesKind, name: str, at_ns: int) -> Sums:
    return facts.minutes.setdefault((kind, name, at_ns // MINUTE_NS), Sums())
