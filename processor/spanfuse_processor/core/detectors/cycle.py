"""cycle: the last steps are full rounds of one period (2 to 12).

Each period's run length is kept as steps arrive, so a call costs the same whatever the length of the session. On
(action, observation) three rounds are a loop; on actions alone, with observations that differ, six are worth a nudge.
As in repeat.no_progress, a cycle that the next observation would complete is foreseen.
"""

from __future__ import annotations

from spanfuse_processor.core.finding import Finding, action_of, evidence, gently, prints_of
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.steps import Step, Steps, unhurried
from spanfuse_processor.core.turn import Turn, agent_hash
from spanfuse_schemas.policy import Cycle


def detect(session: SessionState, turn: Turn) -> Finding | None:
    """Look at the sequence that this call has extended, and at the one that it is about to."""
    rule, step = turn.rules.cycle, turn.step
    if rule.mode == "off":
        return None
    if step is not None and step.kind == "prompt" and session.prompts.repeats:
        found = _look(session.prompts, session, turn, rule)
        if found:
            return found
    return _look(session.steps, session, turn, rule)


def _look(steps: Steps, session: SessionState, turn: Turn, rule: Cycle) -> Finding | None:
    """Look for the shortest period with enough rounds."""
    done_step = turn.step is not None and steps.repeats and steps.last is turn.step
    foreseen = turn.pending != 0 and turn.pending in steps.actions
    if not (done_step or foreseen):
        return None
    fewest = min(rule.rounds, rule.rounds_with_errors)
    for period in steps.periods(steps.runs, rule.max_period):
        done = steps.runs[period]
        if done + foreseen < (fewest - 1) * period:
            continue
        rounds = rule.rounds_with_errors if steps.failing(period) else rule.rounds
        needed = (rounds - 1) * period
        if done_step and done >= needed and steps.distinct(period):
            return _finding(steps, session, turn, rule, period, rounds, foreseen=False)
        if foreseen and done == needed - 1 and _completes(steps, turn, period):
            return _finding(steps, session, turn, rule, period, rounds, foreseen=True)
    return _on_actions(steps, session, turn, rule) if done_step else None


def _completes(steps: Steps, turn: Turn, period: int) -> bool:
    """Whether the action under way is the next one of the cycle."""
    if len(steps.ring) < period or not steps.distinct(period):
        return False
    expected = steps.ring[-period]
    return expected.kind == "turn" and expected.action == turn.pending


def _finding(
    steps: Steps, session: SessionState, turn: Turn, rule: Cycle, period: int, rounds: int, *, foreseen: bool
) -> Finding:
    ring = steps.ring
    round_ = ring[-period:]
    first = ring[-min(len(ring), rounds * period - foreseen)]
    gone = (steps.runs[period] + foreseen) // period + 1
    waits = gone < rule.wait_rounds and unhurried(ring[::-1][::period][: gone - foreseen][::-1], rule.wait_s)
    action = action_of(rule.mode)
    return Finding(
        rule="cycle",
        mode=rule.mode,
        action=gently(action) if waits else action,
        message=_message(round_, gone) + _agents(session, round_),
        evidence=evidence(
            session,
            turn.call,
            first.begun,
            count=gone,
            threshold=rounds,
            unit="rounds",
            period=period,
        ),
        loop=prints_of(round_),
        conditional=foreseen,
    )


def _message(steps: list[Step], rounds: int) -> str:
    if steps[0].kind == "prompt":
        return (
            f"The same {len(steps)} prompts were sent in turn, {rounds} times over. Use what was answered, or ask "
            "something else."
        )
    return (
        f"The same {len(steps)} steps{_tools(steps)} went round {rounds} times with the same results. Leave the cycle: take "
        "another step, or finish with what is known."
    )


def _agents(session: SessionState, steps: list[Step]) -> str:
    """Who takes part, where they are several."""
    parties = {step.agent for step in steps}
    names = [name for name in session.lanes if name and agent_hash(name) in parties]
    return f" (Agents: {', '.join(names)}.)" if len(names) > 1 else ""


def _on_actions(steps: Steps, session: SessionState, turn: Turn, rule: Cycle) -> Finding | None:
    runs, ring = steps.action_runs, steps.ring
    for period in steps.periods(runs, rule.max_period):
        needed = (rule.action_rounds - 1) * period
        if runs[period] >= needed and len({s.action for s in ring[-period:]}) > 1:
            first = ring[-min(len(ring), rule.action_rounds * period)]
            return Finding(
                rule="cycle",
                mode=rule.mode,
                action=gently(action_of(rule.mode)),
                message=f"The same {period} actions{_tools(ring[-period:])} went round {rule.action_rounds} times, with "
                "results that differ. Check that this still leads anywhere.",
                evidence=evidence(
                    session,
                    turn.call,
                    first.begun,
                    count=rule.action_rounds,
                    threshold=rule.action_rounds,
                    unit="rounds",
                    period=period,
                ),
            )
    return None


def _tools(steps: list[Step]) -> str:
    names = list(dict.fromkeys(s.tool for s in steps if s.tool))
    return f" ({', '.join(names)})" if names else ""
