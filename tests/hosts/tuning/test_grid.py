"""What is swept, and what is tried for it."""

from __future__ import annotations

import pytest
import yaml

from spanfuse_processor.config.overlay import Overlay
from spanfuse_processor.errors import ConfigError
from spanfuse_processor.hosts.tuning.grid import ASKED_ONLY, GRID, axes, distance
from spanfuse_processor.hosts.tuning.settings import applied, changed, rule_of, sections, told
from spanfuse_schemas import Policy
from spanfuse_schemas.policy import RULE_NAMES
from tests.support.agents import policy


@pytest.mark.parametrize("rule", GRID)
def test_every_value_of_the_table_is_one_that_its_rule_takes(rule: str) -> None:
    for setting, values in GRID[rule].items():
        assert len(set(values)) == len(values)
        possible = [applied(Policy(), ((rule, setting, value),)) for value in values]
        assert sum(one is not None for one in possible) >= 2, setting


def test_the_table_has_every_rule_that_can_block_by_a_threshold() -> None:
    assert set(RULE_NAMES) - set(GRID) == {"retries", "adaptive", "coverage", "breaker", "budget.session"}


def test_by_default_the_rules_on_loops_are_swept_that_block_or_would() -> None:
    found = {axis.rule for axis in axes(policy(repeat_error={"mode": "off"}, cycle={"mode": "shadow"}))}
    assert found == set(GRID) - ASKED_ONLY - {"repeat.error"}


def test_whether_a_rule_should_block_at_all_is_tried_too() -> None:
    found = {(axis.rule, axis.setting): axis.values for axis in axes(Policy())}
    assert found["cycle", "mode"] == ("warn",)
    assert found["repeat.no_progress", "count"] == (2, 4, 5, 6), "beside what is configured"


def test_a_rule_that_is_named_is_swept_by_the_table_and_tried_as_if_it_blocked() -> None:
    marks, traced = axes(Policy(), ["drift"])
    assert (marks.setting, traced.setting) == ("min_marks", "min_traced")
    tried = [told(changed(Policy(), (), option)) for option in marks.options()]
    assert tried == [
        {},
        {"drift.mode": "block"},
        {"drift.min_marks": 1, "drift.mode": "block"},
        {"drift.min_marks": 3, "drift.mode": "block"},
        {"drift.min_marks": 4, "drift.mode": "block"},
    ]


def test_values_are_read_as_a_configuration_has_them() -> None:
    steps, mode, tools = axes(
        Policy(), ["limits.max_steps=10,20", "velocity.cost.mode=off,block", "limits.max_tool_calls={a: 1},{b: 2}"]
    )
    assert (steps.rule, steps.now, steps.values) == ("limits", None, (10, 20))
    assert (mode.rule, mode.values) == ("velocity.cost", ("off", "block"))
    assert tools.values == ({"a": 1}, {"b": 2})


def test_a_mode_that_is_swept_is_not_changed_along_with_thresholds() -> None:
    _, factor = axes(Policy(), ["velocity.mode=warn,block", "velocity.factor=2"])
    assert [told(changed(Policy(), (), option)) for option in factor.options()] == [{}, {"velocity.factor": 2.0}]


@pytest.mark.parametrize(
    "text",
    ["nothing", "cycle.nothing=1", "cycle.rounds=", "cycle.rounds=x", "cycle.rounds=1", "budget.session.limit_usd=1",
     "breaker.cooldown_s=1", "cycle.mode=maybe", "cycle.rounds=[", "retries"],
)  # fmt: skip
def test_what_cannot_be_swept_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        axes(Policy(), [text])
    assert f"--sweep {text}" in str(raised.value)


def test_settings_that_contradict_one_another_are_not_tried() -> None:
    assert applied(Policy(), (("stagnation", "block_below", 0.5),)) is None
    assert applied(Policy(), (("stagnation", "block_below", 0.2),)) is not None


def test_changes_are_known_by_what_differs_from_the_policy() -> None:
    one = changed(Policy(), (), {("cycle", "rounds"): 4, ("cycle", "mode"): "block"})
    assert one == (("cycle", "rounds", 4),)
    assert changed(Policy(), one, {("cycle", "rounds"): 3}) == ()


def test_a_change_counts_by_the_values_on_the_way_and_a_mode_most() -> None:
    swept = axes(Policy())
    assert distance(swept, (("repeat.no_progress", "count", 5),)) == 2
    assert distance(swept, (("repeat.no_progress", "count", 2),)) == 1
    assert distance(swept, (("cycle", "mode", "warn"),)) == 10
    capped = axes(Policy(), ["limits"])
    assert distance(capped, (("limits", "max_steps", 400),)) < distance(capped, (("limits", "max_steps", 25),))


def test_only_rules_that_differ_are_written_each_with_all_that_is_not_its_default() -> None:
    """What is laid over a configuration replaces a rule as a whole."""
    mine = policy(repeat_no_progress={"count": 5, "min_interval_s": 20}, cycle={"rounds": 4})
    found = sections(mine, (("repeat.no_progress", "count", 3),))
    assert found == {"detectors": {"repeat.no_progress": {"min_interval_s": 20.0}}}
    over = Overlay.model_validate(yaml.safe_load(yaml.safe_dump(found)))
    assert over.detectors is not None
    assert over.detectors.repeat_no_progress == rule_of(mine, "repeat.no_progress").model_copy(update={"count": 3})
    assert sections(mine, (("cycle", "rounds", 3),)) == {"detectors": {"cycle": {"mode": "block"}}}
    assert sections(mine, ()) == {}
