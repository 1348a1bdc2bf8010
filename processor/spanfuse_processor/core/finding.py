"""What a detector says when its rule fires."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.steps import Step
from spanfuse_processor.core.turn import hexed
from spanfuse_schemas import Call, Evidence, LoopPrint
from spanfuse_schemas.detection import DetectionAction, Mode


@dataclass(slots=True, frozen=True)
class Finding:
    """One rule, firing on one call."""

    rule: str
    """Name of the rule."""
    mode: Mode
    """Mode of the rule that asked."""
    action: DetectionAction
    """What the rule asks for, before the mode of the whole."""
    message: str
    """For people: what was seen and what to do; for a nudge, for the model."""
    evidence: Evidence
    """The numbers."""
    loop: tuple[LoopPrint, ...] = ()
    """How the next call of the loop is recognised."""
    scope: Literal["loop", "all"] = "all"
    """Whether a block means the calls of the loop only. A loop that only tool spans told of blocks all: their results and
    the messages in which a Guard sees them are written differently."""
    conditional: bool = False
    """The loop completes only with the next call."""
    until: Literal["cooldown", "reset"] = "cooldown"
    """What ends a block."""


def action_of(mode: Mode) -> DetectionAction:
    """What a mode asks for; a rule in shadow asks for what it would do."""
    return mode if mode == "warn" or mode == "nudge" else "block"


def print_of(step: Step) -> LoopPrint:
    """How the call that follows this step is recognised before it is made."""
    near = hexed(step.near) if step.kind == "prompt" else ""
    action = "" if step.kind == "prompt" else hexed(step.action)
    return LoopPrint(canon=hexed(step.observation), near=near, size=step.near_size if near else 0, action=action)


def evidence(
    session: SessionState,
    call: Call,
    first: tuple[int, int, int],
    *,
    count: int,
    threshold: float,
    unit: str,
    value: float | None = None,
    period: int = 0,
    tool: str = "",
) -> Evidence:
    """The numbers of a finding.

    Args:
        first: span id, time (ns) and money the session had spent (nano-dollars) when what was found began.
    """
    span_id, since_ns, spent = first
    return Evidence(
        count=count,
        threshold=threshold,
        value=count if value is None else value,
        unit=unit,
        period=period,
        tool=tool,
        first_span_id=hexed(span_id),
        last_span_id=call.span_id,
        trace_id=call.trace_id,
        since_ns=since_ns,
        cost_nano_usd=session.cost_nano_usd - spent,
    )
