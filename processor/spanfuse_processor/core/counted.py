"""What each rule has counted of a session so far: the same that its detector compares, without changing anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from spanfuse_processor.core.likeness import same_wording
from spanfuse_processor.core.pace import rest
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.steps import Step, close_together, matching
from spanfuse_schemas import Rules
from spanfuse_schemas.policy import NoProgress

NANO: Final = 10**9


class Counted(NamedTuple):
    """What a rule has counted."""

    counted: float
    """So far, in `unit`."""
    threshold: float | None
    """Where it fires; none: no limit is set."""
    unit: str
    note: str = ""
    """What is counted, for people."""
    below: bool = False
    """It fires below the threshold, not from it on."""


Count = Callable[[SessionState, Rules], Counted]


def _last(state: SessionState) -> Step | None:
    return next((step for step in reversed(state.steps.ring) if step.kind != "prompt"), None)


def _deed(step: Step) -> str:
    return f"`{step.tool}`" if step.tool else "the last action"


def _no_progress(state: SessionState, rules: Rules) -> Counted:
    rule, step = rules.repeat_no_progress, _last(state)
    if step is None or not step.canon:
        return Counted(0, rule.count, "repeats", _nothing(state))
    recent = state.steps.recent(step.agent, rule.within)
    row = _row(recent, step, rule, since_progress=True)
    if step.error and len(row) < rule.count:
        failed = _row(recent, step, rule, since_progress=False)
        return Counted(
            len(failed), rule.failures, "repeats", f"{_deed(step)} failed alike, with other steps in between"
        )
    return Counted(len(row), rule.count, "repeats", f"{_deed(step)} brought the same since something new came")


def _row(recent: list[Step], step: Step, rule: NoProgress, *, since_progress: bool) -> list[Step]:
    equal = matching(recent, lambda s: s.canon == step.canon, since_progress=since_progress)
    return close_together(equal, rule.min_interval_s)


def _nothing(state: SessionState) -> str:
    """Why there is no step to look at."""
    if not (state.calls or state.tools):
        return "no call was counted yet"
    return "its spans show neither content nor fingerprints of what was done, so that steps cannot be compared"


def _error(state: SessionState, rules: Rules) -> Counted:
    rule, step = rules.repeat_error, _last(state)
    row = state.steps.run(errors=True, min_interval_s=rule.min_interval_s) if step is not None else []
    note = f"{_deed(step)} failed in a row" if step is not None and row else "the last step did not fail"
    return Counted(len(row), rule.count, "repeats", note)


def _prompt(state: SessionState, rules: Rules) -> Counted:
    longest = max((lane.count for lane in state.lanes.values()), default=0)
    note = "the agent sent the same prompt in a row" if longest > 1 else "no prompt was sent twice in a row"
    return Counted(longest, rules.repeat_prompt.count, "repeats", note)


def _action(state: SessionState, rules: Rules) -> Counted:
    rule, step = rules.repeat_action, _last(state)
    row = state.steps.run(min_interval_s=rule.min_interval_s) if step is not None and step.action else []
    note = f"{_deed(step)} in a row, whatever it brought" if step is not None else _nothing(state)
    return Counted(len(row), rule.nudge_at if len(row) < rule.nudge_at else rule.count, "repeats", note)


def _refused(state: SessionState, rules: Rules) -> Counted:
    row = state.refusals
    note = "the provider refused the same request in a row" if row is not None else "the last request was not refused"
    return Counted(row.count if row is not None else 0, rules.repeat_refused.count, "failures", note)


def _paging(state: SessionState, rules: Rules) -> Counted:
    pages = state.pages
    note = f"`{pages.tool}` went through its pages again" if pages is not None else "no tool is paged through"
    return Counted(pages.passes if pages is not None else 0, rules.repeat_paging.count, "repeats", note)


def _near(state: SessionState, rules: Rules) -> Counted:
    step, rule, near = _last(state), rules.repeat_no_progress, rules.near
    if step is None or not step.wording:
        return Counted(0, rule.count, "repeats", "the last tool call has no words to compare")
    alike = [
        s
        for s in state.steps.recent(step.agent, rule.within)
        if s.tool == step.tool
        and s.observation == step.observation
        and same_wording(s.wording, step.wording, near.similarity)
    ]
    return Counted(
        len(alike), rule.count, "repeats", f"{_deed(step)} was asked in nearly the same words and brought the same"
    )


def _cycle(state: SessionState, rules: Rules) -> Counted:
    rule, best, period = rules.cycle, 0, 0
    for steps in (state.steps, state.prompts):
        for p in range(2, rule.max_period + 1):
            done = steps.runs[p] // p + 1 if steps.runs[p] >= p and steps.distinct(p) else 0
            if done > best:
                best, period = done, p
    note = f"the last {period} steps went round" if best else "the last steps are no rounds of one period"
    return Counted(best, rule.rounds, "rounds", note)


def _stagnation(state: SessionState, rules: Rules) -> Counted:
    rule, ring = rules.stagnation, state.steps.ring
    if len(ring) < rule.window:
        return Counted(len(ring), None, "steps", f"it looks at {rule.window} steps, and there are {len(ring)}")
    recent = ring[-rule.window :]
    share = sum(s.novel and not s.echo for s in recent) / rule.window
    note = f"share of the last {rule.window} steps that brought something new; it fires below the threshold"
    return Counted(round(share, 3), rule.nudge_below, "share", note, below=True)


def _drift(state: SessionState, rules: Rules) -> Counted:
    return Counted(
        0, rules.drift.min_traced, "traced arguments", "each call is judged by itself, and nothing is added up"
    )


def _safety_drift(state: SessionState, rules: Rules) -> Counted:
    astray = state.strayed.agents if state.strayed is not None else []
    note = "conversations that are far from their topic at present"
    return Counted(len(astray), 1, "conversations", note)


def _velocity(state: SessionState, rules: Rules) -> Counted:
    rule, pace = rules.velocity, state.velocity
    if pace is None:
        return Counted(0, rule.ceiling_per_min, "calls/min", "no model call was counted yet")
    left = rest(state.last_ns)
    limit = float(rule.ceiling_per_min)
    if pace.usual:
        usual = max(rule.factor * pace.usual, rule.floor_per_min)
        if usual < limit:
            rate = pace.now + pace.before * left
            return Counted(round(rate, 1), usual, "calls/min", f"its usual pace is {pace.usual:g} a minute")
    rate = pace.calls + pace.calls_before * left
    return Counted(round(rate, 1), limit, "calls/min", "its usual pace is not known yet; this is the ceiling")


def _velocity_cost(state: SessionState, rules: Rules) -> Counted:
    rule, pace = rules.velocity_cost, state.velocity_cost
    if pace is None:
        return Counted(0, rule.ceiling_usd_per_min, "USD/min", "no call with a price was counted yet")
    rate = (pace.now + pace.before * rest(state.last_ns)) / NANO
    limit = rule.ceiling_usd_per_min
    if pace.usual:
        limit = min(limit, max(rule.factor * pace.usual / NANO, rule.floor_usd_per_min))
    return Counted(round(rate, 6), limit, "USD/min", "money in the last minute of its work")


def _burn(state: SessionState, rules: Rules) -> Counted:
    burn = state.velocity_burn
    note = "calls in a row sent the same large context for nothing" if burn else "the last call brought something"
    return Counted(burn.count if burn else 0, rules.velocity_burn.count, "calls", note)


def _idle(state: SessionState, rules: Rules) -> Counted:
    idle = state.spend_idle
    note = "wakings in a row were for nothing" if idle else "it was not woken for nothing"
    return Counted(idle.count if idle else 0, rules.spend_idle.count, "calls", note)


def _creep(state: SessionState, rules: Rules) -> Counted:
    rule, creep = rules.spend_creep, state.spend_creep
    if creep is None or not creep.median:
        return Counted(0, rule.count, "calls", "what a call costs at first is not known yet")
    note = f"calls of late cost {rule.factor:g} times the ${creep.median / NANO:.4f} of the first ones"
    return Counted(creep.above, rule.count, "calls", note)


def _context(state: SessionState, rules: Rules) -> Counted:
    told = state.context.told if state.context is not None else {}
    note = f"tiers of the context window that are reached; the first is {rules.context.warning_at:.0%} of it"
    return Counted(max(told.values(), default=0), 1, "tiers", note)


def _errors(state: SessionState, rules: Rules) -> Counted:
    rule = rules.errors
    since = state.last_ns - int(rule.window_s * NANO)
    recent = sum(at > since for at in state.errors)
    return Counted(recent, rule.count, "failures", f"calls failed at the provider within {rule.window_s:g} s")


def _limits(state: SessionState, rules: Rules) -> Counted:
    rule = rules.limits
    caps: list[tuple[float, float | None, str, str]] = [
        (state.calls, rule.max_steps, "calls", "max_steps"),
        (state.tokens, rule.max_tokens, "tokens", "max_tokens"),
        ((state.last_ns - state.first_ns) / NANO, rule.max_duration_s, "s", "max_duration_s"),
    ]
    for tool, most in rule.max_tool_calls.items():
        count = max(state.tool_actions.get(tool, 0), state.tool_spans.get(tool, 0))
        caps.append((count, most, "calls", f"max_tool_calls of `{tool}`"))
    given = [(value, cap, unit, name) for value, cap, unit, name in caps if cap is not None]
    if not given:
        return Counted(state.calls, None, "calls", "no cap is set")
    reached, cap, unit, name = max(given, key=lambda one: one[0] / one[1])
    return Counted(round(reached, 3), cap, unit, f"{name} is the nearest cap")


def _budget(state: SessionState, rules: Rules) -> Counted:
    spent, limit = state.cost_nano_usd / NANO, rules.budget_session.limit_usd
    if limit is not None and state.budgets is not None:
        limit = state.budgets.limit_of("session", round(limit * NANO)) / NANO
    return Counted(round(spent, 6), limit, "USD", "money that the session has spent" if limit else "no limit is set")


def _handoffs(state: SessionState, rules: Rules) -> Counted:
    rule, roster = rules.handoffs, state.roster
    runs = roster.runs if roster is not None else []
    rounds = max(
        (run // period + 1 for period, run in zip(range(2, 5), runs, strict=False) if run >= period), default=0
    )
    note = "agents took turns and only talked" if rounds else "agents do not take turns round by round"
    return Counted(rounds, rule.rounds, "rounds", note)


OF_SESSIONS: Final[dict[str, Count]] = {
    "repeat.no_progress": _no_progress,
    "repeat.error": _error,
    "repeat.prompt": _prompt,
    "repeat.action": _action,
    "repeat.refused": _refused,
    "repeat.paging": _paging,
    "near": _near,
    "cycle": _cycle,
    "stagnation": _stagnation,
    "drift": _drift,
    "safety_drift": _safety_drift,
    "velocity": _velocity,
    "velocity.cost": _velocity_cost,
    "velocity.burn": _burn,
    "spend.idle": _idle,
    "spend.creep": _creep,
    "context": _context,
    "errors": _errors,
    "limits": _limits,
    "budget.session": _budget,
    "handoffs": _handoffs,
}
"""Rule → what it has counted, by the names of `Policy.rules`."""
