"""Why a breaker did or did not trip: of each rule what it has counted, its threshold, and one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from spanfuse_processor.core.counted import OF_SESSIONS, Counted
from spanfuse_processor.core.scopes.counted import OF_SCOPES
from spanfuse_schemas import Decision, Rules
from spanfuse_schemas.detection import Mode
from spanfuse_schemas.policy import RULE_NAMES
from spanfuse_schemas.record import Record

if TYPE_CHECKING:
    from spanfuse_processor.core.scopes.state import ScopeState
    from spanfuse_processor.core.session import SessionState


class RuleView(Record):
    """One rule, as it looks at a session or scope at present."""

    rule: str
    """Its name, such as `repeat.no_progress`; of a budget `budget.<name>`."""
    mode: Mode
    """How it is set here."""
    counted: float = 0
    """What it has counted, in `unit`."""
    threshold: float | None = None
    """Where it fires, in `unit`; none: it has no limit here, or too little to look at."""
    unit: str = ""
    """Unit of both: repeats, rounds, calls, tokens, s, USD, …"""
    fired: bool = False
    """Whether it has fired on it since it began, or was reset."""
    stands: bool = False
    """Whether what stands against it is this rule's."""
    near: float = 0
    """How near it is to firing: 0, nothing is counted, to 1, the threshold is reached."""
    why: str = ""
    """One sentence: why it tripped, or what is missing."""


_FIELDS = dict(zip(RULE_NAMES, Rules.model_fields, strict=True))


def explain(state: SessionState, rules: Rules) -> list[RuleView]:
    """Each rule of a session, those that stand first, then those nearest to their threshold.

    Args:
        rules: the settings for its agent and team; exceptions for a tool are not looked at.
    """
    found = ((rule, count(state, rules)) for rule, count in OF_SESSIONS.items())
    return ordered(_viewed(found, rules, state.decision, state.fired))


def explain_scope(state: ScopeState, rules: Rules) -> list[RuleView]:
    """The same of an agent, a trace, a team, or all together."""
    found = ((rule, count(state, rules)) for rule, count in OF_SCOPES.get(state.kind, {}).items())
    return ordered(_viewed(found, rules, state.standing, state.fired))


def of_budget(row: dict[str, Any], mode: Mode, held: Decision | None) -> RuleView:
    """A budget that holds for it.

    Args:
        row: its account; see `core.budgets.row`.
        held: what stands against the scope whose budget it is.
    """
    rule = f"budget.{row['budget']}"
    scale = 10**9 if row["unit"] == "usd" else 1
    unit = "USD" if row["unit"] == "usd" else row["unit"]
    spent, limit = row["spent"] / scale, row["limit"] / scale
    stands = held is not None and held.rule == rule
    said = f"{row['scope']} has spent {spent:g} of {limit:g} {unit}"
    why = f"It holds back: {said}." if stands and held is not None else f"{said}: {_rest(row, mode)}."
    return RuleView(
        rule=rule, mode=mode, counted=spent, threshold=limit, unit=unit, fired=row["status"] == "exhausted", stands=stands,
        near=min(1.0, row["used"]), why=why,
    )  # fmt: skip


def _rest(row: dict[str, Any], mode: Mode) -> str:
    if row["status"] != "exhausted":
        return f"{1 - row['used']:.0%} is left"
    return "all is spent" if mode == "block" else f"all is spent, and its mode is {mode}"


def ordered(views: Iterable[RuleView]) -> list[RuleView]:
    """What stands first, what is off last, and between them the nearest first."""
    return sorted(views, key=lambda view: (not view.stands, view.mode == "off", -view.near))


def _viewed(
    found: Iterable[tuple[str, Counted]], rules: Rules, held: Decision | None, told: dict[str, int]
) -> Iterator[RuleView]:
    fired = {key.rpartition(":")[0] for key in told}
    for rule, counted in found:
        mode: Mode = getattr(rules, _FIELDS[rule]).mode
        stands = held is not None and _is_of(held.rule, rule)
        yield RuleView(
            rule=rule,
            mode=mode,
            counted=counted.counted,
            threshold=counted.threshold,
            unit=counted.unit,
            fired=stands or any(_is_of(name, rule) for name in fired),
            stands=stands,
            near=_near(counted),
            why=_why(counted, mode, held if stands else None, any(_is_of(name, rule) for name in fired)),
        )


def _is_of(told: str, rule: str) -> bool:
    """Whether what was told of by a name is a rule's: `limits.max_steps` is of `limits`, `near.prompt` of `near`."""
    return told == rule or (rule in ("limits", "context", "near") and told.startswith(f"{rule}."))


def _near(counted: Counted) -> float:
    if not counted.threshold:
        return 0.0
    if counted.below:
        return 1.0 if counted.counted < counted.threshold else round(counted.threshold / counted.counted, 3)
    return round(min(1.0, counted.counted / counted.threshold), 3)


def _why(counted: Counted, mode: Mode, held: Decision | None, fired: bool) -> str:
    if held is not None:
        enforced = "" if held.mode == "enforce" else " Nobody enforces it: the whole is in observe."
        return f"It tripped: {held.message}{enforced}"
    if mode == "off":
        return "It is off here."
    if counted.threshold is None:
        return f"It cannot fire: {counted.note}."
    amount = f"{counted.counted:g} of {counted.threshold:g} {counted.unit}"
    if fired:
        meant = {"shadow": "it is in shadow, so that this is recorded and not carried out", "warn": "it only warns"}
        return (
            f"It has fired; {meant.get(mode, 'what it asked for is over, or something stronger stands')}. Now {amount}."
        )
    return f"{amount}: {counted.note}."
