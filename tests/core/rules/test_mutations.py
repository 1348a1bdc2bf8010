"""Every number of the policy decides: one step more or less, and some session at its limit ends otherwise.

Each row is a setting, a sequence just inside its limit and one at it, and what comes of both. The default (or, where the
default switches it off or lies at a bound, `base`) gives these two outcomes; a step up and a step down each change one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from spanfuse_schemas import Call, Policy, Rules, Tokens
from tests.support.agents import play, policy
from tests.support.sequences import (
    FOUR_OF_SEVEN,
    THREE_OF_FIVE,
    again,
    apart,
    asked,
    bits_apart,
    echoes,
    failed_probes,
    failing,
    half_known,
    labelled,
    missing,
    passes,
    polls,
    probed,
    refused,
    round_and_round,
    same,
    strongest,
    worded,
)

HERE = Path(__file__).parent


def last_state(calls: list[Call], rules: Policy, rule: str) -> str:
    """How the breaker stands after the last call."""
    held = play(calls, rules).session.decision
    return held.state if held else "closed"


def cooldown(calls: list[Call], rules: Policy, rule: str) -> str:
    """How long the breaker stays open after the last call, seconds."""
    held = play(calls, rules).session.decision
    assert held is not None
    assert held.expires_at_ns is not None
    return f"{(held.expires_at_ns - held.issued_at_ns) / 1e9:g} s"


@dataclass(frozen=True)
class Row:
    """A setting and two sequences that tell it from its neighbours."""

    setting: str
    inside: list[Call]
    beyond: list[Call]
    outcomes: tuple[str, str]
    step: float = 1
    base: Any = None
    rule: str = ""
    also: dict[str, Any] | None = None
    outcome: Callable[[list[Call], Policy, str], str] = strongest

    def __str__(self) -> str:
        return f"{self.setting}={'default' if self.base is None else self.base}"


TABLE = (
    Row("repeat.no_progress.count", same(2), same(3), ("", "block")),
    Row("repeat.no_progress.within", apart(0, 5, 11), apart(0, 5, 12), ("nudge", "")),
    Row("repeat.no_progress.failures", apart(0, 2, 4, 6), apart(0, 2, 4, 6, 8), ("nudge", "block")),
    Row("repeat.no_progress.min_interval_s", same(3, every=59.5), same(3, every=60), ("block", ""), base=60),
    Row("repeat.no_progress.min_interval_s", same(3, every=1), same(3, every=1), ("block", "block")),
    Row("repeat.no_progress.wait_s", same(3, every=59.5), same(3, every=60), ("block", "nudge")),
    Row("repeat.no_progress.wait_count", same(9, every=60), same(10, every=60), ("nudge", "block")),
    Row("repeat.error.count", failing(2), failing(3), ("", "block")),
    Row("repeat.error.min_interval_s", failing(3, every=59.5), failing(3, every=60), ("block", ""), base=60),
    Row("repeat.error.min_interval_s", failing(3), failing(3), ("block", "block")),
    Row("repeat.error.wait_s", failing(3, every=59.5), failing(3, every=60), ("block", "nudge")),
    Row("repeat.error.wait_count", failing(9, every=60), failing(10, every=60), ("nudge", "block")),
    Row("repeat.error.one_message", missing(7), missing(8), ("", "nudge")),
    Row("repeat.prompt.count", again(2), again(3), ("", "block")),
    Row("repeat.prompt.min_interval_s", again(3, every=59.5), again(3, every=60), ("block", ""), base=60),
    Row("repeat.prompt.min_interval_s", again(3), again(3), ("block", "block")),
    Row("repeat.prompt.wait_s", again(3, every=59.5), again(3, every=60), ("block", "nudge")),
    Row("repeat.prompt.wait_count", again(9, every=60), again(10, every=60), ("nudge", "block")),
    Row("repeat.action.nudge_at", polls(9), polls(10), ("", "nudge")),
    Row("repeat.action.count", polls(29), polls(30), ("nudge", "block")),
    Row("repeat.action.min_interval_s", polls(10, every=59.5), polls(10, every=60), ("nudge", ""), base=60),
    Row("repeat.action.min_interval_s", polls(10), polls(10), ("nudge", "nudge")),
    Row("repeat.refused.count", refused(4), refused(5), ("", "block")),
    Row("repeat.paging.count", passes(2), passes(3), ("nudge", "block"), also={"repeat_paging": {"mode": "block"}}),
    Row("near.similarity", worded(*FOUR_OF_SEVEN), worded(*THREE_OF_FIVE), ("", "block"), step=0.03, rule="near.no_progress"),
    Row("near.volatile_count", labelled(3), labelled(4), ("", "block"), rule="near.volatile"),
    Row("near.max_distance", bits_apart(3), bits_apart(4), ("block", ""), base=3, rule="near.prompt"),
    Row("near.max_distance", bits_apart(1), bits_apart(2), ("", ""), rule="near.prompt"),
    Row("cycle.rounds", round_and_round(2, 5), round_and_round(2, 6), ("", "block")),
    Row("cycle.rounds_with_errors", round_and_round(2, 3, fails=True), round_and_round(2, 4, fails=True), ("", "block")),
    Row(
        "cycle.rounds_with_errors",
        round_and_round(2, 5, fails=True),
        round_and_round(2, 6, fails=True),
        ("", "block"),
        base=3,
        also={"cycle": {"rounds": 4}},
    ),
    Row("cycle.wait_s", round_and_round(2, 6, every=29.9), round_and_round(2, 6, every=30), ("block", "nudge")),
    Row("cycle.wait_rounds", round_and_round(2, 19, every=30), round_and_round(2, 20, every=30), ("nudge", "block")),
    Row("cycle.action_rounds", round_and_round(2, 11, differ=True), round_and_round(2, 12, differ=True), ("", "nudge")),
    Row("cycle.max_period", round_and_round(12, 36), round_and_round(13, 39), ("block", "")),
    Row("cycle.max_period", round_and_round(11, 33), round_and_round(12, 36), ("block", ""), base=11),
    Row("stagnation.window", half_known(0, 27), half_known(0, 28), ("", "block")),
    Row("stagnation.nudge_below", half_known(9), half_known(8), ("", "nudge"), step=0.035),
    Row("stagnation.block_below", half_known(5), half_known(4), ("nudge", "block"), step=0.035),
    Row("stagnation.echoes", echoes(7), echoes(8), ("nudge", "block")),
    Row("limits.max_steps", asked(6), asked(7), ("", "block"), base=7),
    Row("limits.max_tokens", asked(1, tokens=Tokens(input=600, output=99)), asked(1, tokens=Tokens(input=600, output=100)),
        ("", "block"), base=700),
    Row("limits.max_duration_s", asked(7), asked(8), ("", "block"), base=7),
    Row("limits.max_tool_calls", polls(3), polls(4), ("", "block"), base={"poll": 4}),
    Row("limits.max_tool_calls", polls(3), polls(4), ("", "block"), base={"*": 4}),
    Row("budget.session.limit_usd", asked(1, cost=49_500_000), asked(1, cost=50_000_000), ("", "block"), base=0.05,
        step=0.001),
    Row("breaker.cooldown_s", probed(299.5), probed(300), ("open", "closed"), outcome=last_state),
    Row("breaker.max_cooldown_s", failed_probes(3), failed_probes(4), ("2400 s", "3600 s"), outcome=cooldown),
    Row("breaker.probes", probed(300, 2), probed(300, 3), ("open", "closed"), base=3, outcome=last_state),
)  # fmt: skip

ELSEWHERE = {
    "drift": "test_drift.py",
    "safety_drift": "test_safety_drift.py",
    "velocity": "test_velocity.py",
    "velocity.cost": "test_velocity_cost.py",
    "velocity.burn": "test_velocity_burn.py",
    "spend.idle": "test_spend_idle.py",
    "spend.creep": "test_spend_creep.py",
    "context": "test_context.py",
    "errors": "test_errors.py",
    "handoffs": "test_handoffs.py",
    "agent.breaker": "../scopes/test_agent_breaker.py",
    "fanout": "../scopes/test_fanout.py",
    "retries": "../scopes/test_retries.py",
    "adaptive": "../scopes/test_adaptive.py",
    "coverage": "../scopes/test_coverage.py",
}
"""Rules whose numbers have tests of their own."""


def numbers() -> Iterator[str]:
    """All numeric settings of the rules, as `rule.setting`."""
    for name, field in Rules.model_fields.items():
        model = type(getattr(Rules(), name))
        for setting, inner in model.model_fields.items():
            if any(kind in str(inner.annotation) for kind in ("int", "float")):
                yield f"{field.alias or name}.{setting}"


def at(row: Row, value: Any) -> Policy:
    """The policy in which the row's setting has a value."""
    rule, setting = row.setting.rsplit(".", 1)
    settings = {**(row.also or {}).get(rule.replace(".", "_"), {}), setting: value}
    return policy(**{**(row.also or {}), rule.replace(".", "_"): settings})


def default_of(setting: str) -> Any:
    rule, name = setting.rsplit(".", 1)
    model: BaseModel = getattr(Rules(), rule.replace(".", "_"))
    return getattr(model, name)


def moved(value: Any, step: float) -> Any:
    if isinstance(value, dict):
        return {key: number + int(step) for key, number in value.items()}
    return value + int(step) if isinstance(value, int) and step == int(step) else value + step


def outcomes(row: Row, rules: Policy) -> tuple[str, str]:
    rule = row.rule or row.setting.rsplit(".", 1)[0]
    return row.outcome(row.inside, rules, rule), row.outcome(row.beyond, rules, rule)


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_what_comes_of_it_at_the_limit_and_just_inside(row: Row) -> None:
    assert outcomes(row, at(row, default_of(row.setting) if row.base is None else row.base)) == row.outcomes


@pytest.mark.parametrize("setting", sorted({row.setting for row in TABLE}))
@pytest.mark.parametrize("direction", [1, -1])
def test_one_step_more_or_less_changes_what_comes_of_it(setting: str, direction: int) -> None:
    changed = []
    for row in (row for row in TABLE if row.setting == setting):
        base = default_of(setting) if row.base is None else row.base
        try:
            rules = at(row, moved(base, direction * row.step))
        except ValidationError:
            continue  # there is nothing beyond that bound
        changed.append(outcomes(row, rules) != row.outcomes)
    assert changed, "each direction is open to some row"
    assert all(changed)


def test_every_number_is_in_the_table_or_tested_elsewhere() -> None:
    tabled = {row.setting for row in TABLE}
    missing = [s for s in numbers() if s not in tabled and s.rsplit(".", 1)[0] not in ELSEWHERE]
    assert not missing
    assert tabled <= set(numbers())


@pytest.mark.parametrize("rule", ELSEWHERE)
def test_what_is_tested_elsewhere_is(rule: str) -> None:
    assert (HERE / ELSEWHERE[rule]).read_text(encoding="utf-8").count("def test_") > 3
