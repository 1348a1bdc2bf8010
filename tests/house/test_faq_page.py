"""docs/faq.md says what is so: its numbers are those of the rules, of the client and of the comparison."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import yaml

from spanfuse import Guard, instrument
from spanfuse_processor.config import load_config
from spanfuse_schemas.policy import Rules

DOCS = Path(__file__).parents[2] / "docs"
PAGE = " ".join((DOCS / "faq.md").read_text(encoding="utf-8").split())
NUMBERS = {3: "third", 5: "fifth", 10: "tenth"}


def test_polling_and_failing_tests_are_judged_as_it_says() -> None:
    rule, errors = Rules().repeat_no_progress, Rules().errors
    assert f"nudged at the {NUMBERS[rule.count]} and blocked at the {NUMBERS[rule.wait_count]}" in PAGE
    assert f"The {NUMBERS[rule.count]} equal failure earns a nudge, the {NUMBERS[rule.failures]} a block" in PAGE
    assert (rule.wait_s, errors.count, errors.window_s) == (60, 5, 60)


def test_the_figures_of_the_comparison_are_those_on_its_page() -> None:
    text = (DOCS / "comparison.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| spanfuse \| (\d.*) \|$", text, re.MULTILINE)
    stopped, *_, good = row.split(" | ")
    assert f"runaways stopped (of {stopped})" in text
    assert f"of {stopped} labelled runaways all were" in PAGE
    assert (good, "On 200 recorded sessions that reached their goal, one was stopped" in PAGE) == ("1", True)


def test_the_times_of_the_client_are_those_of_the_code() -> None:
    assert inspect.signature(Guard).parameters["staleness_s"].default == 30
    assert "after 30 s without a sign of life" in PAGE
    assert inspect.signature(instrument).parameters["schedule_delay_ms"].default == 5
    assert "leaves the agent 5 ms after its call" in PAGE


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", (DOCS / "faq.md").read_text(), re.DOTALL))
def test_its_configurations_load(block: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(block, encoding="utf-8")
    assert len(load_config(tmp_path / "c.yaml", {}).policies) == len(yaml.safe_load(block)["policies"])
