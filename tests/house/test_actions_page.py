"""docs/actions.md says what is so: its examples run, its numbers and names are those of the code."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from spanfuse import Blocked, Guard
from spanfuse.steering import budget_warnings, progress
from spanfuse.steering.cancel import CancelToken
from spanfuse.steering.context_pressure import TIERS
from spanfuse.tools import Denial, Question, ToolDenied
from spanfuse.tools import asking as tool_asking
from spanfuse.tools import denials as tool_denials
from spanfuse.tools import executions as tool_executions
from spanfuse_processor.config import load_config
from spanfuse_processor.hosts.reload import OF_SERVICE, RELOADED
from spanfuse_schemas import Matcher

PAGE = (Path(__file__).parents[2] / "docs" / "actions.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The blocks of a language, in their order."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@contextmanager
def ran(*examples: str) -> Iterator[dict[str, Any]]:
    """What examples leave behind that are run one after the other; no server is there."""
    names: dict[str, Any] = {}
    guards: list[Guard] = []
    try:
        for example in examples:
            exec(compile(example, "docs/actions.md", "exec"), names)
            guards += [names["guard"]] if "guard" in names else []
        yield names
    finally:
        for guard in guards:
            guard.close()


def test_all_examples_run() -> None:
    with ran(*blocks("python")) as names:
        assert progress.of("run-44") == 3
        assert len(names["warnings"]) == 1


def test_the_first_example_prints_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with ran(blocks("python")[0]):
        assert capsys.readouterr().out == blocks("text")[0]


def test_asking_and_cancelling_come_out_as_they_say() -> None:
    with ran(*blocks("python")[:3]) as names:
        assert asyncio.run(names["mail"]("bob")) == "sent to bob"
        with pytest.raises(ToolDenied, match="not without the press office"):
            asyncio.run(names["mail"]("everybody"))
        assert asyncio.run(names["work"]()) == "The user has left."


def test_the_configuration_loads(tmp_path: Path) -> None:
    file = tmp_path / "spanfuse.yaml"
    file.write_text(blocks("yaml")[0])
    assert [rule.action for rule in load_config(file, {}).policy().tools] == ["deny", "ask", "allow"]


def test_every_operator_is_in_the_table_and_no_other() -> None:
    table = PAGE.partition("| operator |")[2].partition("\n\n")[0]
    found = {name for row in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert found == {field.alias or name for name, field in Matcher.model_fields.items()}


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"`ask_timeout_s` {tool_asking.TIMEOUT_S:g}" in PAGE
    assert f"{tool_executions.MAX_SESSIONS:,} sessions are remembered" in PAGE
    assert f"the last {tool_denials.MAX_DENIALS:,} `Denial`s" in PAGE
    assert "at=" + str(dict(TIERS)).replace("'", '"') in PAGE
    assert budget_warnings.FRACTIONS == (0.5, 0.2, 0.1)


def test_what_is_named_exists() -> None:
    assert all(f"`{name}`" in PAGE for name in Question._fields)
    assert {"fields", "print", "enforced"} <= set(Denial._fields)
    assert all(hasattr(CancelToken, name) for name in re.findall(r"`(?:await )?token\.(\w+)", PAGE))
    assert all(hasattr(Guard, name) for name in re.findall(r"guard\.(\w+)\(", PAGE))
    assert Blocked.terminal
    assert not ToolDenied.terminal


def test_what_is_read_again_is_named() -> None:
    names = {*RELOADED, *(f"service.{name}" for name in OF_SERVICE)} - {"tools"}
    assert all(f"`{name}`" in PAGE for name in names)
