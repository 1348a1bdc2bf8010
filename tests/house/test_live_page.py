"""docs/page.md says what is so: it names every part of the page, and its configuration is one."""

from __future__ import annotations

import re
from pathlib import Path

from spanfuse_processor.config import load_config
from spanfuse_processor.exporters.readmodel.model import MAX_STEPS
from spanfuse_processor.page import sessions
from spanfuse_processor.page.shell import PARTS, POLICY

PAGE = (Path(__file__).parents[2] / "docs" / "page.md").read_text(encoding="utf-8")


def test_every_part_of_the_page_is_in_the_table() -> None:
    table = re.findall(r"^\| \[(\w+)\]\(http://127\.0\.0\.1:8787(/\S*)\)", PAGE, re.MULTILINE)
    assert [(path, name) for name, path in table] == list(PARTS)


def test_the_configuration_loads(tmp_path: Path) -> None:
    file = tmp_path / "spanfuse.yaml"
    file.write_text(re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0])
    tokens = {"ON_CALL_TOKEN": "a" * 24, "FINANCE_TOKEN": "b" * 24}
    assert [token.role for token in load_config(file, tokens).extensions.api.tokens] == ["operate", "read"]


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"the last {MAX_STEPS} steps" in PAGE
    assert f"{sessions.ROWS} a page" in PAGE
    assert POLICY.startswith(re.findall(r"`Content-Security-Policy: (.+?)`", PAGE)[0])
