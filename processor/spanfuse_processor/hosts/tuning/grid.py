"""What is swept: the settings of each rule and the values that are tried for them, in one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml
from pydantic import ValidationError

from spanfuse_processor.errors import ConfigError
from spanfuse_processor.hosts.tuning.settings import Changes, rule_of
from spanfuse_schemas import Policy
from spanfuse_schemas.policy import RULE_NAMES
from spanfuse_schemas.rule import Rule

GRID: Final[dict[str, dict[str, tuple[Any, ...]]]] = {
    "repeat.no_progress": {"count": (2, 3, 4, 5, 6), "within": (8, 12, 20, 30), "failures": (3, 5, 8)},
    "repeat.error": {"count": (2, 3, 4, 5)},
    "repeat.prompt": {"count": (2, 3, 4, 5)},
    "repeat.action": {"count": (10, 15, 20, 30, 40)},
    "repeat.refused": {"count": (3, 5, 8)},
    "near": {"similarity": (0.5, 0.6, 0.7, 0.8, 1.0), "volatile_count": (3, 4, 5, 6, 8), "max_distance": (0, 3)},
    "cycle": {"rounds": (2, 3, 4, 5), "rounds_with_errors": (2, 3, 4)},
    "stagnation": {"window": (20, 30, 40), "block_below": (0.05, 0.1, 0.15, 0.2, 0.25), "echoes": (5, 8, 12)},
    "errors": {"count": (3, 5, 10, 20)},
    "repeat.paging": {"count": (1, 2, 3, 5)},
    "limits": {"max_steps": (25, 50, 100, 200, 400)},
    "drift": {"min_marks": (1, 2, 3, 4), "min_traced": (1, 2, 3)},
    "safety_drift": {"threshold": (0.45, 0.6, 0.75, 0.9), "min_turns": (3, 5)},
    "velocity": {"ceiling_per_min": (60, 120, 240, 480), "factor": (3, 5, 10), "floor_per_min": (20, 30, 60)},
    "velocity.cost": {"ceiling_usd_per_min": (2, 5, 10, 20), "floor_usd_per_min": (0.5, 1, 2)},
    "velocity.burn": {"count": (3, 4, 6, 10), "min_input_tokens": (20_000, 50_000, 100_000)},
    "spend.idle": {"count": (3, 4, 6, 10), "min_pause_s": (120, 300, 600)},
    "spend.creep": {"factor": (3, 5, 8), "floor_usd": (0.1, 0.2, 0.5)},
    "context": {"blocking_at": (0.9, 0.95, 0.99)},
    "handoffs": {"rounds": (5, 10, 20)},
    "agent.breaker": {"sessions": (3, 5, 10), "share": (0.3, 0.5, 0.8)},
    "fanout": {"max_agents": (10, 25, 50, 100)},
}
"""Rule → setting → values, beside the one that is configured. Those next to a default, and one or two beyond: what is best
far from it is a sign of few labels. Rules that are not here only warn, or are about money, which a budget says."""

ASKED_ONLY: Final = frozenset(GRID) - {
    "repeat.no_progress", "repeat.error", "repeat.prompt", "repeat.action", "repeat.refused", "near", "cycle",
    "stagnation", "errors",
}  # fmt: skip
"""Rules that are swept only where they are named: pace, size and topic alone are no proof of a loop, so that what they stop
in one recording says little of the next."""


Wanted = tuple[str, str, tuple[Any, ...]]
"""Rule, setting, and the values that are tried."""
_NO_RULES: Final = frozenset({"breaker", "budget.session"})
_MODE_STEPS: Final = 10
"""What a change of a mode counts for, in steps of a threshold: it is the largest that can be made."""


@dataclass(frozen=True)
class Axis:
    """One setting, and what is tried for it."""

    rule: str
    setting: str
    now: Any
    """What is configured."""
    values: tuple[Any, ...]
    """What is tried beside it."""
    mode: str = ""
    """How the rule is set, where it does not block: its settings are tried as if it did."""

    def options(self) -> Iterator[dict[tuple[str, str], Any]]:
        """What is laid over the other changes, one after the other; the first is what is configured."""
        key, mode = (self.rule, self.setting), (self.rule, "mode")
        if self.mode:
            yield {key: self.now, mode: self.mode}
        for value in (self.now, *self.values):
            yield {key: value, mode: "block"} if self.mode else {key: value}

    def steps(self, value: Any) -> int:
        """How far a value is from what is configured: the values on the way, itself included."""
        if self.setting == "mode":
            return _MODE_STEPS
        if not all(isinstance(one, int | float) for one in (value, *self.values)):
            return 1
        now = self.now if isinstance(self.now, int | float) else float("inf")  # a limit that is not set is the highest
        low, high = min(now, value), max(now, value)
        return 1 + len([one for one in self.values if low < one < high])


def distance(axes: Iterable[Axis], changes: Changes) -> int:
    """How far changes are from what is configured, in steps of the grid."""
    known = {(axis.rule, axis.setting): axis for axis in axes}
    return sum(
        known[rule, setting].steps(value) if (rule, setting) in known else _MODE_STEPS
        for rule, setting, value in changes
    )


def axes(policy: Policy, asked: Sequence[str] = ()) -> list[Axis]:
    """What is swept.

    Args:
        asked: `rule`, with the values of the table, or `rule.setting=value,value`; none: the rules of the table that stop
            loops and block, or would if they were not in shadow, and whether each of them should.

    Raises:
        ConfigError: no such rule, setting or value.
    """
    wanted = [one for text in asked for one in _asked(policy, text)] if asked else list(_by_default(policy))
    modes = {rule for rule, setting, _ in wanted if setting == "mode"}
    return [_axis(policy, *one, mode_is_swept=bool(asked) and one[0] in modes) for one in wanted]


def _by_default(policy: Policy) -> Iterator[Wanted]:
    on = [rule for rule in GRID if rule not in ASKED_ONLY and rule_of(policy, rule).mode in ("block", "shadow")]
    yield from ((rule, setting, values) for rule in on for setting, values in GRID[rule].items())
    yield from ((rule, "mode", ("block", "warn")) for rule in on)


def _axis(policy: Policy, rule: str, setting: str, values: tuple[Any, ...], *, mode_is_swept: bool) -> Axis:
    was = rule_of(policy, rule)
    now = getattr(was, setting)
    blocks = setting == "mode" or was.mode == "block" or mode_is_swept
    return Axis(rule, setting, now, tuple(value for value in values if value != now), "" if blocks else was.mode)


def _asked(policy: Policy, text: str) -> Iterator[Wanted]:
    name, has_values, said = text.partition("=")
    if not has_values and name in GRID:
        yield from ((name, setting, values) for setting, values in GRID[name].items())
        return
    rule = max((known for known in RULE_NAMES if name.startswith(f"{known}.")), key=len, default="")
    setting = name.removeprefix(f"{rule}.")
    if not rule or rule in _NO_RULES or setting not in type(rule_of(policy, rule)).model_fields:
        raise ConfigError([f"--sweep {text}: no setting of a rule that can be swept; rules: {', '.join(GRID)}"])
    yield rule, setting, tuple(_values(type(rule_of(policy, rule)), setting, text, said))


def _values(model: type[Rule], setting: str, text: str, said: str) -> Iterator[Any]:
    """Values as a configuration has them; whether they go with other settings is seen when they are tried."""
    try:
        values = said.split(",") if setting == "mode" else yaml.safe_load(f"[{said}]")
    except yaml.YAMLError:
        values = []
    if not values:
        raise ConfigError([f"--sweep {text}: values are parted by commas, such as 3,4,5"])
    for value in values:
        try:
            yield getattr(model.model_validate({setting: value}), setting)
        except ValidationError as error:
            problem = error.errors(include_input=False, include_url=False)[0]
            if problem["loc"]:
                raise ConfigError([f"--sweep {text}: {value}: {problem['msg']}"]) from None
            yield value
