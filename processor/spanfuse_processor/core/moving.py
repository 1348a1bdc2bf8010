"""Calls that were counted under their trace and turn out to belong to a session: what the trace's state has goes there.

A parent ends, and is sent, after its children, so that its session id comes late (`otlp.late`). From then on the trace's state
holds the way: what comes later of the same stretch of time is handed on.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection
from typing import Final

from spanfuse_processor.core import circuit
from spanfuse_processor.core.circuit import Mode
from spanfuse_processor.core.rules import RuleBook
from spanfuse_processor.core.session import (
    MAX_ERRORS,
    MAX_LANES,
    MAX_TOOLS,
    OTHER,
    RECORDS,
    PromptRun,
    SessionState,
    Way,
)
from spanfuse_processor.core.steps import RING, Steps
from spanfuse_processor.core.turn import Turn
from spanfuse_schemas import Alias, Call, Decision, Moved, Policy
from spanfuse_schemas.fingerprint import exact_hash

MAX_WAYS: Final = 8
"""Sessions remembered of a trace; the oldest is forgotten."""
SLACK_NS: Final = 1_000_000_000
"""By so much a call may begin before its ancestor: clocks of several hosts differ."""

_APART: Final = ("past", "ways", "roster")
"""Records that are not simply taken over."""


def way_of(state: SessionState, start_ns: int) -> str:
    """The session to which a call of a trace belongs by its start; empty: unknown."""
    for into, from_ns, to_ns in state.ways.known if state.ways is not None else ():
        if from_ns - SLACK_NS <= start_ns <= to_ns:
            return str(into)
    return ""


def leave(state: SessionState, alias: Alias, mode: Mode) -> tuple[Moved | None, list[Decision]]:
    """Take what a trace's state has counted, remember the way, and close its breaker.

    Returns:
        What is to be taken to the session; none if nothing was counted.
    """
    moved, told = None, []
    if state.calls or state.tools:
        packed = b64encode(state.snapshot()).decode()
        moved = Moved(session=alias.into, origin=state.key, at_ns=state.last_ns, state=packed)
        if state.decision is not None:
            told = [circuit.close(state, f"session:{state.key}", state.last_ns, f"It belongs to {alias.into}.", mode)]
        state.forget()
        state.past = None
    state.ways = state.ways or Way()
    state.ways.add(alias.into, alias.from_ns, alias.to_ns, MAX_WAYS)
    return moved, told


def arrive(state: SessionState, moved: Moved, policy: Policy) -> list[Decision] | None:
    """Take in what was counted elsewhere; steps stand in the order of their ends.

    Returns:
        What that changes about the breaker; none if it had arrived before.

    Raises:
        StateError: another build has packed it.
    """
    other = SessionState.restore(b64decode(moved.state))
    identity = int(exact_hash(f"{moved.origin}@{moved.at_ns}"), 16)
    if state.seen.add(identity, moved.at_ns) == "duplicate":
        return None
    rules = policy.rules
    _add_up(state, other, rules.limits.max_tool_calls)
    state.steps = _together(state.steps, other.steps)
    state.prompts = _together(state.prompts, other.prompts)
    state.recent.extend(other.recent)
    state.seen.extend(other.seen)
    for agent, run in other.lanes.items():
        if agent in state.lanes:
            state.lanes[agent] = _one_run(state.lanes[agent], run, rules.repeat_prompt.wait_s)
        elif len(state.lanes) < MAX_LANES:
            state.lanes[agent] = run
    if state.budgets is not None and other.budgets is not None:
        state.budgets.take_over(other.budgets)
    for name in RECORDS:
        if name not in _APART and getattr(state, name) is None:
            setattr(state, name, getattr(other, name))
    if other.roster is not None:
        first = state.roster.first if state.roster is not None else ""
        if other.last_ns >= state.last_ns or state.roster is None:
            state.roster = other.roster
        state.roster.first = first or other.roster.first
    state.last_ns = max(state.last_ns, other.last_ns)
    return _held(state, other, policy.mode)


def _add_up(state: SessionState, other: SessionState, capped: Collection[str]) -> None:
    state.calls += other.calls
    state.tools += other.tools
    state.tokens += other.tokens
    state.cost_nano_usd += other.cost_nano_usd
    state.first_ns = min(state.first_ns or other.first_ns, other.first_ns)
    state.progress = max(state.progress, other.progress)
    state.errors = sorted((*state.errors, *other.errors))[-MAX_ERRORS:]
    state.open_tools = state.open_tools or other.open_tools
    for counts, more in ((state.tool_actions, other.tool_actions), (state.tool_spans, other.tool_spans)):
        for tool, count in more.items():
            name = tool if tool in counts or tool in capped or len(counts) < MAX_TOOLS else OTHER
            counts[name] = counts.get(name, 0) + count
    for key, at_ns in other.fired.items():
        state.fired[key] = max(at_ns, state.fired.get(key, 0))


def _together(one: Steps, other: Steps) -> Steps:
    if not one.ring or not other.ring:
        return one if one.ring else other
    if len(one.ring) + len(other.ring) <= RING and one.ring[-1].end_ns <= other.ring[0].end_ns:
        joined = one  # most often: what comes is all newer
        newer = other.ring
    else:
        joined = Steps()
        newer = sorted((*one.ring, *other.ring), key=lambda step: step.end_ns)[-RING:]
    for step in newer:
        joined.append(step._replace(novel=not step.canon or step.canon not in joined.canons))
    return joined


def _one_run(one: PromptRun, other: PromptRun, wait_s: float) -> PromptRun:
    """The newer run of equal prompts, lengthened by the older one if it goes on with that."""
    old, new = (one, other) if one.end_ns <= other.end_ns else (other, one)
    same = old.canon == new.canon and old.system == new.system and new.history <= old.history
    if not same or old.novel != old.novel_before or new.novel != new.novel_before:
        return new
    if old.exact == new.exact and new.exact_count == new.count:
        new.exact_count += old.exact_count
    new.hurried |= old.hurried or new.since_ns - old.end_ns < wait_s * 1e9
    new.count += old.count
    new.span_id, new.since_ns, new.spent = old.span_id, old.since_ns, old.spent
    return new


def arrival(state: SessionState, moved: Moved, book: RuleBook) -> Turn:
    """What has arrived as the rules see it: no call of its own, but a step or a prompt that may be one too many."""
    agent = state.roster.first if state.roster is not None else ""
    step, prompt = state.steps.last, state.prompts.last
    newest = prompt if step is None or (prompt is not None and prompt.end_ns > step.end_ns) else step
    call = Call(
        kind="tool",
        trace_id=moved.origin.removeprefix("trace:"),
        span_id=f"{newest.span_id if newest else 0:016x}",
        start_ns=moved.at_ns,
        end_ns=moved.at_ns,
        session=state.key,
        session_source="inherited",
        agent=agent,
    )
    run = state.lanes.get(agent) if newest is prompt else None
    return Turn(call, book.of(agent, "", newest.tool if newest else ""), newest, run)


def _held(state: SessionState, other: SessionState, mode: Mode) -> list[Decision]:
    """What was open of the trace holds of the session, unless more does."""
    held, own = other.decision, state.decision
    if held is None or held.action != "block" or (own is not None and own.action == "block"):
        return []
    state.epoch += 1
    state.cooldown_s = max(state.cooldown_s, other.cooldown_s)
    state.awaited = other.awaited
    state.decision = held.model_copy(update={"key": f"session:{state.key}", "epoch": state.epoch, "mode": mode})
    return [state.decision]
