"""docs/rules has a page for each rule, with the defaults of the policy, and examples that come out as they say."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from spanfuse_processor.core.pipeline import Pipeline
from spanfuse_processor.core.session import SessionState
from spanfuse_schemas import Call, Policy, Rules, Tokens
from spanfuse_schemas.policy import RULE_NAMES
from tests.support.agents import failure, prompt, tool

PAGES = Path(__file__).parents[2] / "docs" / "rules"
FILL = " and so on, of the kind that is in no other place" * 4
INDEX = re.findall(
    r"^\| \[`([\w.]+)`\]\(([\w.]+)\) \| (.+) \| (.+) \|$", (PAGES / "README.md").read_text(), re.MULTILINE
)
_LINE = re.compile(
    r"""(?:(?P<after>\d+)\ s:\ )?
        (?:(?P<tool>\w+)\((?P<arguments>.*?)\)\ ->\ (?P<result>.*?)
          |(?P<refused>400\ )?"(?P<text>.*?)")
        (?:\ \[(?P<fields>.*?)\])?
        (?:\s+=>\ (?P<found>.*))?$""",
    re.VERBOSE,
)


def settings_of(rule: str) -> BaseModel:
    """The default settings of a rule."""
    found: BaseModel = getattr(Rules(), rule.replace(".", "_"))
    return found


def shown(value: Any) -> str:
    """A default as a page shows it."""
    if value is None or value == {}:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else ", ".join(value) if isinstance(value, tuple) else str(value)


def rows_of(page: str) -> dict[str, str]:
    """Setting → default, from the page's table."""
    lines = (PAGES / page).read_text(encoding="utf-8").split("| setting | default | why |\n|---|---|---|\n")
    assert len(lines) == 2, f"{page} has one table of settings"
    rows = takewhile(lambda line: line.startswith("|"), lines[1].splitlines())
    return dict(re.findall(r"^\| `(\w+)` \| `?(.*?)`? \|", "\n".join(rows), re.MULTILINE))


def test_every_rule_has_a_page_and_is_in_the_index() -> None:
    assert [rule for rule, *_ in INDEX] == [*RULE_NAMES, "progress"]
    for rule, page, *_ in INDEX:
        assert page == f"{rule}.md"
        assert (
            (PAGES / page).read_text(encoding="utf-8").startswith(f"# `{rule}`" if rule != "progress" else "# Progress")
        )


def test_every_page_is_in_the_index() -> None:
    assert {path.name for path in PAGES.glob("*.md")} == {"README.md", *(page for _, page, *_ in INDEX)}


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_the_index_tells_the_default_mode(rule: str) -> None:
    (mode,) = [mode for name, _, _, mode in INDEX if name == rule]
    assert mode.split(",")[0] == getattr(settings_of(rule), "mode", "—")


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_the_defaults_on_the_page_are_those_of_the_policy(rule: str) -> None:
    settings = settings_of(rule)
    assert rows_of(f"{rule}.md") == {name: shown(value) for name, value in settings if name != "mode"}


def arguments_of(text: str) -> Any:
    """`a=1, b=two` as an object; anything else as it stands."""
    pairs = [part.split("=", 1) for part in text.split(", ")]
    if not all(len(pair) == 2 for pair in pairs):
        return text
    return {key: int(value) if value.isdigit() else value for key, value in pairs}


def fields_of(text: str | None) -> dict[str, Any]:
    """`400 tokens`, `$0.02`, `progress 3`, or nothing."""
    fields: dict[str, Any] = {}
    for part in (text or "").split(", "):
        if part.startswith("$"):
            fields["cost_nano_usd"] = round(float(part[1:]) * 1e9)
        elif part.startswith("progress "):
            fields["progress"] = int(part.split()[1])
        elif part.endswith(" tokens"):
            fields["tokens"] = Tokens(input=int(part.split()[0].replace(",", "")))
    return fields


def call_of(line: str, at: float) -> tuple[Call, float, list[str]]:
    """The call that a line of an example tells of, when it was made, and what is said of it."""
    found = _LINE.match(line)
    assert found, line
    at += float(found["after"] or 1)
    fields, expected = fields_of(found["fields"]), [part for part in (found["found"] or "").split(", ") if part]
    if found["tool"]:
        result = found["result"].replace(" …", FILL)
        echoes = found["result"] in found["arguments"]
        return (
            tool(found["tool"], arguments_of(found["arguments"]), result, at=at, echoes=echoes, **fields),
            at,
            expected,
        )
    if found["refused"]:
        return failure("400", text=found["text"], error_class="client", at=at, **fields), at, expected
    return prompt(found["text"], at=at, lasts=0, **fields), at, expected


def examples() -> list[Any]:
    """The blocks of all pages that hold steps."""
    return [
        pytest.param(block, id=f"{path.stem}-{i}")
        for path in sorted(PAGES.glob("*.md"))
        for i, block in enumerate(re.findall(r"```steps\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL))
    ]


@pytest.mark.parametrize("example", examples())
def test_an_example_comes_out_as_it_says(example: str) -> None:
    """One line a step. `=>` is followed by all that is found with it; without, nothing is."""
    head, _, body = example.rpartition("---\n")
    pipeline, session, at = (
        Pipeline(Policy.model_validate({"rules": yaml.safe_load(head) or {}})),
        SessionState("s"),
        0.0,
    )
    for line in body.splitlines():
        call, at, expected = call_of(line.rstrip(), at)
        found = pipeline.step(session, call).detections
        assert [f"{d.action} {d.rule}" for d in found] == expected, line


@pytest.mark.parametrize("rule", [rule for rule in RULE_NAMES if rule != "breaker"])
def test_rules_on_steps_show_an_example_that_is_run(rule: str) -> None:
    text = (PAGES / f"{rule}.md").read_text(encoding="utf-8")
    assert "example" in text
    if rule.startswith(("repeat.", "near", "cycle", "stagnation", "limits", "budget")):
        assert "```steps" in text
