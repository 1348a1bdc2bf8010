"""What the breakers of sessions and of scopes have in common: how they close, how they open again, and what is told."""

from __future__ import annotations

from typing import Literal, Protocol

from spanfuse_processor.core.finding import Finding
from spanfuse_schemas import Decision
from spanfuse_schemas.policy import Breaker

Mode = Literal["observe", "enforce"]


class Held(Protocol):
    """The state of a session or scope, as far as its breaker goes."""

    decision: Decision | None
    epoch: int
    cooldown_s: float
    fired: dict[str, int]


def over(decision: Decision, now_ns: int) -> bool:
    """Whether its cooldown has ended."""
    return decision.expires_at_ns is not None and decision.expires_at_ns <= now_ns


def close(state: Held, key: str, at_ns: int, message: str, mode: Mode, *, reset: bool = False) -> Decision:
    """Close the breaker, and let the rule that had opened it speak again.

    Args:
        reset: an operator closes it.
    """
    rule = state.decision.rule if state.decision else ""
    state.fired = {k: v for k, v in state.fired.items() if not k.startswith(f"{rule}:")}
    state.epoch += 1
    state.decision = None
    return Decision(
        key=key,
        state="closed",
        mode=mode,
        rule=rule,
        message=message,
        issued_at_ns=at_ns,
        epoch=state.epoch,
        reset=reset,
    )


def passed(state: Held, current: Decision, probes: int) -> bool:
    """Whether the breaker may close: so many more probes went well, and one that fails would have opened it again at once."""
    total = current.probes_passed + probes
    state.decision = current.model_copy(update={"probes_passed": total})
    return total >= current.probes


def reopen(state: Held, current: Decision, at_ns: int, settings: Breaker, mode: Mode) -> Decision:
    """Open the breaker again after a bad probe, for twice as long."""
    state.cooldown_s = min(state.cooldown_s * 2, settings.max_cooldown_s)
    state.epoch += 1
    state.decision = current.model_copy(
        update={
            "issued_at_ns": at_ns,
            "expires_at_ns": at_ns + int(state.cooldown_s * 1e9),
            "epoch": state.epoch,
            "mode": mode,
            "probes": settings.probes,
            "probes_passed": 0,
        }
    )
    return state.decision


def reset_by(actor: str) -> str:
    """What is said of a reset."""
    return f"Reset by {actor}." if actor else "Reset by an operator."


def is_told(state: Held, found: Finding, at_ns: int, quiet_s: float) -> bool:
    """Whether a finding becomes a detection: each is told once until it has been silent for so long, seconds."""
    key = f"{found.rule}:{found.action}{'?' if found.conditional else ''}"
    last = state.fired.get(key)
    state.fired[key] = at_ns
    return last is None or at_ns - last > quiet_s * 1e9
