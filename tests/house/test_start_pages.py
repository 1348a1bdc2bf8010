"""docs/start.md and docs/concepts.md say what is so: their examples come out as they are shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house.test_rule_pages import test_an_example_comes_out_as_it_says as comes_out

DOCS = Path(__file__).parents[2] / "docs"
START, CONCEPTS = ((DOCS / name).read_text(encoding="utf-8") for name in ("start.md", "concepts.md"))
STEPS = re.findall(r"```steps\n(.*?)```", CONCEPTS, re.DOTALL)


def test_the_script_of_the_start_prints_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    exec(compile(re.findall(r"```python\n(.*?)```", START, re.DOTALL)[0], "docs/start.md", "exec"), names)
    assert capsys.readouterr().out.startswith(re.findall(r"```text\n(.*?)```", START, re.DOTALL)[0].rstrip(".\n"))


@pytest.mark.parametrize("n", range(len(STEPS)))
def test_the_steps_of_the_concepts_come_out_as_they_say(n: int) -> None:
    comes_out(STEPS[n])
