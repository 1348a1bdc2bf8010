"""The rules, one module each, all of one shape: `detect(session, turn) -> Finding | None`.

A detector reads the session, which `turn.fold` has brought up to date, and the settings; it keeps what it needs in the
session and never looks at another detector. The table below is their order: where several fire on one call, all are
recorded, and the first of the strongest decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spanfuse_processor.core.detectors import (
    budget_session,
    context,
    cycle,
    drift,
    errors,
    handoffs,
    limits,
    near_no_progress,
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

Detector = Callable[[SessionState, Turn], Finding | None]

DETECTORS: Final[tuple[Detector, ...]] = (
    budget_session.detect,
    limits.detect,
    errors.detect,
    repeat_prompt.detect,
    repeat_no_progress.detect,
    near_no_progress.detect,
    near_volatile.detect,
    repeat_error.detect,
    cycle.detect,
    repeat_action.detect,
    repeat_paging.detect,
    repeat_refused.detect,
    stagnation.detect,
    drift.detect,
    safety_drift.detect,
    velocity.detect,
    velocity_cost.detect,
    velocity_burn.detect,
    spend_idle.detect,
    spend_creep.detect,
    context.detect,
    handoffs.detect,
)
