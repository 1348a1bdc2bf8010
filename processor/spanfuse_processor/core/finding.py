"""What a detector says when its rule fires."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from spanfuse_processor.core.session import SessionState
from spanfuse_processor.core.steps import Step, unhurried
from spanfuse_processor.core.turn import hexed
from spanfuse_schemas import Call, Detection, Evidence, LoopPrint
from spanfuse_schemas.detection import DetectionAction, Mode
from spanfuse_schemas.policy import Repeat


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
    """How the next call of the loop is recognised; empty: every call is meant."""
    max_distance: int = 0
    """Hamming distance within which an input with a SimHash still belongs to the loop, bits."""
    conditional: bool = False
    """The loop completes only with the next call."""
    until: Literal["cooldown", "reset", "period"] = "cooldown"
    """What ends a block."""
    ends_ns: int = 0
    """When the period ends, nanoseconds since the Unix epoch."""


def action_of(mode: Mode) -> DetectionAction:
    """What a mode asks for; a rule in shadow asks for what it would do."""
    return mode if mode == "warn" or mode == "nudge" else "block"


def gently(action: DetectionAction) -> DetectionAction:
    """The same without the force: at most a nudge."""
    return "nudge" if action == "block" else action


def patience(mode: Mode, rule: Repeat, steps: Sequence[Step], count: int) -> DetectionAction:
    """What a rule on repeats asks for: at most a nudge as long as the agent only waits."""
    action = action_of(mode)
    return gently(action) if count < rule.wait_count and unhurried(steps, rule.wait_s) else action


def prints_of(steps: Iterable[Step]) -> tuple[LoopPrint, ...]:
    """How the calls that follow these steps are recognised before they are made.

    By the action and what it brings; by the action alone where a tool span told of it, since a framework may write a result
    differently into the messages. Not at all for parallel calls told by spans: then every call is meant.
    """
    found: dict[tuple[str, int, int], None] = {}
    for step in steps:
        if step.kind == "prompt":
            found["prompt", step.observation, 0] = None
        elif step.kind == "turn":
            found["turn", step.observation, step.action] = None
        elif step.tool:
            found["tool", 0, step.action] = None
        else:
            return ()
    return tuple([_print(observation, action, kind == "tool") for kind, observation, action in found])


def any_result_of(step: Step) -> tuple[LoopPrint, ...]:
    """The same, by the action alone: whatever it brings, the next call belongs to the loop."""
    if step.kind == "tool" and not step.tool:
        return ()
    return (_print(0, step.action, step.kind == "tool"),)


@lru_cache(maxsize=1024)
def _print(observation: int, action: int, fresh: bool) -> LoopPrint:
    """While a loop goes on, its prints are asked for at each step."""
    return LoopPrint(canon=hexed(observation), action=hexed(action), fresh=fresh)


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
    return Evidence.made(
        count=count,
        threshold=float(threshold),
        value=float(count if value is None else value),
        unit=unit,
        period=period,
        tool=tool,
        first_span_id=hexed(span_id),
        last_span_id=call.span_id,
        trace_id=call.trace_id,
        since_ns=since_ns,
        cost_nano_usd=session.cost_nano_usd - spent,
    )


def detection_of(session: SessionState, call: Call, found: Finding, which: str = "") -> Detection:
    """A finding as it is told.

    Args:
        which: tells several of one rule on one call apart.
    """
    return Detection(
        id=f"{call.span_id}-{found.rule}-{found.action}{'-foreseen' if found.conditional else ''}{which}",
        rule=found.rule,
        action=found.action,
        mode=found.mode,
        session=session.key,
        agent=call.agent,
        user=call.user,
        team=call.team,
        model=call.model,
        call=max(0, session.calls - 1),
        at_ns=call.end_ns,
        message=found.message,
        evidence=found.evidence,
        conditional=found.conditional,
    )
