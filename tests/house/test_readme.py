"""README.md says what is so: its commands, its rules with their defaults, its configuration, its links."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import spanfuse
from spanfuse_processor.config import load_config
from spanfuse_schemas.policy import RULE_NAMES, Rules

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ROWS = {name: default for name, _, default in re.findall(r"^\| `([\w.]+)` \| (.+) \| (.+) \|$", README, re.MULTILINE)}


def _numbers(text: str) -> set[float]:
    return {float(number) for number in re.findall(r"\d+", text)}


def _block(language: str, holding: str) -> str:
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return next(block for block in blocks if holding in block)


def test_the_first_lines_are_the_two_commands() -> None:
    assert [line.split("#")[0].strip() for line in README.splitlines()[1:3]] == ["make demo", "make test"]


def test_every_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"^make (\w+)", README, re.MULTILINE)) <= targets


def test_help_lists_every_target_that_is_described() -> None:
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True).stdout
    for target in ("demo", "up", "test", "check", "bench", "clean", "help"):
        assert re.search(rf"^{target} +\S", shown, re.MULTILINE), target


def test_the_table_of_rules_is_that_of_the_policy() -> None:
    assert list(ROWS) == list(RULE_NAMES)


def test_the_defaults_in_the_table_are_those_of_the_policy() -> None:
    rules = Rules()
    assert _numbers(ROWS["repeat.no_progress"]) == {rules.repeat_no_progress.count}
    assert _numbers(ROWS["repeat.error"]) == {rules.repeat_error.count, rules.repeat_error.one_message}
    assert _numbers(ROWS["repeat.prompt"]) == {rules.repeat_prompt.count}
    assert _numbers(ROWS["repeat.action"]) == {rules.repeat_action.nudge_at, rules.repeat_action.count}
    assert _numbers(ROWS["repeat.refused"]) == {rules.repeat_refused.count}
    assert _numbers(ROWS["repeat.paging"]) == {rules.repeat_paging.count}
    assert _numbers(ROWS["near"]) == {rules.near.volatile_count, rules.near.max_distance}
    cycle, stagnation = rules.cycle, rules.stagnation
    assert _numbers(ROWS["cycle"]) == {cycle.rounds, cycle.rounds_with_errors, cycle.action_rounds}
    shares = {100 * stagnation.nudge_below, 100 * stagnation.block_below}
    assert _numbers(ROWS["stagnation"]) == shares | {stagnation.window, stagnation.echoes}
    velocity = rules.velocity
    assert _numbers(ROWS["velocity"]) == {velocity.factor, velocity.floor_per_min, velocity.ceiling_per_min}
    cost, creep, context = rules.velocity_cost, rules.spend_creep, rules.context
    assert _numbers(ROWS["velocity.cost"]) == {cost.factor, cost.floor_usd_per_min, cost.ceiling_usd_per_min}
    assert _numbers(ROWS["velocity.burn"]) == {rules.velocity_burn.count, rules.velocity_burn.min_input_tokens / 1000}
    assert _numbers(ROWS["spend.idle"]) == {rules.spend_idle.count, rules.spend_idle.min_pause_s}
    assert _numbers(ROWS["spend.creep"]) == {creep.factor, creep.first_calls, creep.floor_usd * 100}
    assert _numbers(ROWS["context"]) == {100 * at for at in (context.warning_at, context.error_at, context.blocking_at)}
    assert _numbers(ROWS["errors"]) == {rules.errors.count, rules.errors.window_s}
    assert _numbers(ROWS["breaker"]) == {rules.breaker.cooldown_s, rules.breaker.max_cooldown_s}
    fleet, retries = rules.agent_breaker, rules.retries
    assert _numbers(ROWS["handoffs"]) == {rules.handoffs.rounds}
    assert _numbers(ROWS["agent.breaker"]) == {fleet.sessions, fleet.window_s, 100 * fleet.share}
    assert _numbers(ROWS["fanout"]) == {rules.fanout.max_agents, rules.fanout.window_s}
    assert _numbers(ROWS["retries"]) == {retries.count, retries.window_s, 100 * retries.share}
    assert rules.budget_session.limit_usd is None
    assert rules.limits.model_fields_set == set()
    assert _numbers(ROWS["drift"]) == {rules.drift.min_marks, 5}
    modes = {name: getattr(rules, name.replace(".", "_")) for name in ROWS}
    for word in ("warn", "off"):
        rows = {
            name for name, row in ROWS.items() if row.split(",")[0].split(" ")[0] == word and "until set" not in row
        }
        assert rows == {name for name, rule in modes.items() if getattr(rule, "mode", "") == word}


def test_the_configuration_shown_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "spanfuse.yaml"
    file.write_text(_block("yaml", "budgets:"), encoding="utf-8")
    config = load_config(file, {})
    assert config.service.mode == "enforce"
    assert config.policy().rules.budget_session.limit_usd == 2.5


def test_what_the_python_example_imports_is_there() -> None:
    for names in re.findall(r"^from spanfuse import (.+)$", _block("python", "guard.check"), re.MULTILINE):
        assert {name.strip() for name in names.split(",")} <= set(spanfuse.__all__)


def test_every_link_leads_to_something_in_the_repository() -> None:
    for name in ("README.md", "CONTRIBUTING.md"):
        for link in re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / name).read_text(encoding="utf-8")):
            assert (ROOT / link).exists(), f"{name}: {link}"
