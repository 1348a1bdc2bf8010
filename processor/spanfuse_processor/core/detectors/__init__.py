"""The rules, one module each, all of one shape: `detect(session, turn) -> Finding | None`.

A detector reads the session, which `turn.fold` has brought up to date, and the settings; it keeps what it needs in the
session and never looks at another detector. The table below is their order: where several fire on one call, all are
recorded, and the first of the strongest decides. A rule is asked only where there is something for it to see.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntFlag
from typing import Final, NamedTuple

from spanfuse_processor.core.detectors import (
    budget_session,
    context,
    cycle,
    drift,
    errors,
    handoffs,
    limits,
    near_no_progress,
    near_semantic,
    near_volatile,
    repeat_action,
    repeat_error,
    repeat_no_progress,
    repeat_paging,
    repeat_prompt,
    repeat_refused,
    safety_drift,
    spend_creep,
    spend_idle,
    stagnation,
    velocity,
    velocity_burn,
    velocity_cost,
)
from spanfuse_processor.core.finding import Finding
from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.turn import Turn
from spanfuse_schemas import Rules
from spanfuse_schemas.policy import Limits

Detector = Callable[[SessionState, Turn], Finding | None]


class Sight(IntFlag):
    """What there is to see in a call."""

    CALL = 0
    """Itself."""
    STEP = 1
    """A step that it completes."""
    REPEAT = 2
    """An action or observation that was there before, or says nothing."""
    PROMPT = 4
    """A prompt that was sent before."""
    SKETCH = 8
    """Where its text or its action comes from."""
    FAILURE = 16
    """A failure, or what comes after one."""
    QUIET = 32
    """A model call that asks for no tool, or what comes after one."""


class Watch(NamedTuple):
    """When a detector is asked."""

    detect: Detector
    sight: Sight
    on: Callable[[Rules], bool]
    """Whether these settings want it at all; if not, it need not look at its mode."""


def always(rules: Rules) -> bool:
    """It has a mode for each tool, or keeps what others read."""
    return True


DETECTORS: Final[tuple[Watch, ...]] = (
    Watch(budget_session.detect, Sight.CALL, lambda r: r.budget_session.limit_usd is not None),
    Watch(limits.detect, Sight.CALL, lambda r: r.limits != Limits()),
    Watch(errors.detect, Sight.FAILURE, lambda r: r.errors.mode != "off"),
    Watch(repeat_prompt.detect, Sight.PROMPT, always),
    Watch(repeat_no_progress.detect, Sight.REPEAT, always),
    Watch(near_no_progress.detect, Sight.REPEAT, always),
    Watch(near_semantic.detect, Sight.REPEAT, always),
    Watch(near_volatile.detect, Sight.REPEAT, always),
    Watch(repeat_error.detect, Sight.REPEAT, always),
    Watch(cycle.detect, Sight.REPEAT, always),
    Watch(repeat_action.detect, Sight.REPEAT, always),
    Watch(repeat_paging.detect, Sight.STEP, lambda r: r.repeat_paging.mode != "off"),
    Watch(repeat_refused.detect, Sight.FAILURE, lambda r: r.repeat_refused.mode != "off"),
    Watch(stagnation.detect, Sight.REPEAT, always),
    Watch(drift.detect, Sight.SKETCH, lambda r: r.drift.mode != "off"),
    Watch(safety_drift.detect, Sight.SKETCH, lambda r: r.safety_drift.mode != "off"),
    Watch(velocity.detect, Sight.CALL, lambda r: r.velocity.mode != "off"),
    Watch(velocity_cost.detect, Sight.CALL, lambda r: r.velocity_cost.mode != "off"),
    Watch(velocity_burn.detect, Sight.QUIET, lambda r: r.velocity_burn.mode != "off"),
    Watch(spend_idle.detect, Sight.QUIET, lambda r: r.spend_idle.mode != "off"),
    Watch(spend_creep.detect, Sight.CALL, lambda r: r.spend_creep.mode != "off"),
    Watch(context.detect, Sight.CALL, lambda r: r.context.mode != "off"),
    Watch(handoffs.detect, Sight.CALL, always),
)


_STEP, _REPEAT, _PROMPT, _SKETCH, _FAILURE, _QUIET = (flag.value for flag in Sight if flag)
"""As integers: flags of an enum are slow to join."""


def sight(session: SessionState, turn: Turn) -> int:
    """What there is to see for the rules."""
    steps, step, run, call = session.steps, turn.step, turn.run, turn.call
    last = steps.last
    found = 0 if step is None else _STEP
    if (
        steps.repeats
        or steps.observed_again
        or session.prompts.repeats
        or (turn.pending and turn.pending in steps.actions)
        or (last is not None and (last.restated or last.echo))
    ):
        found |= _REPEAT
    if run is not None and run.count > 1:
        found |= _PROMPT
    if call.drift is not None:
        found |= _SKETCH
    if call.error_type or session.refusals is not None:
        found |= _FAILURE
    if not call.called or session.velocity_burn is not None or session.spend_idle is not None:
        found |= _QUIET
    return found


Watchers = tuple[tuple[Detector, ...], ...]


def _may_look_again(watch: Watch) -> bool:
    of_steps = Sight.STEP | Sight.REPEAT | Sight.PROMPT | Sight.SKETCH
    return bool(watch.sight & of_steps) or watch.detect in (budget_session.detect, limits.detect)


def watching(rules: Rules, *, counted: bool = False) -> Watchers:
    """The detectors that these settings ask, in order, for each possible sight.

    Args:
        counted: of something that was counted before, and now has its content or its place: what looks at steps or at sums.
    """
    awake = [watch for watch in DETECTORS if watch.on(rules) and (not counted or _may_look_again(watch))]
    asked = [(watch.detect, watch.sight.value) for watch in awake]
    return tuple(
        tuple([detect for detect, wanted in asked if not wanted or wanted & seen]) for seen in range(2 * _QUIET)
    )
