"""docs/replay.md shows what its commands print, and names what the report has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from spanfuse_processor.cli import cli
from spanfuse_processor.hosts.replay.totals import BY_RULE
from spanfuse_schemas import Policy
from tests.support.replays import replay_files

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "replay.md").read_text(encoding="utf-8")
RECORDING = "examples/recording.jsonl"


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_examples_print_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tried := tmp_path / "tried.yaml").write_text(_blocks("yaml")[0], encoding="utf-8")
    monkeypatch.chdir(ROOT)
    commands = [c.strip() for block in _blocks("sh") for c in block.splitlines() if RECORDING in c]
    shown = _blocks("text")
    assert len(commands) == len(shown) == 2
    for command, text in zip(commands, shown, strict=True):
        arguments = command.replace("tried.yaml", str(tried)).split()[1:]
        printed = CliRunner().invoke(cli, arguments, prog_name="spanfuse").stdout
        assert text in "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


def test_every_key_of_the_report_is_named() -> None:
    report = replay_files(Policy(), [ROOT / RECORDING]).to_dict()
    assert report["sessions"][0]["detections"]
    keys = {*report, *report["sessions"][0], *report["sessions"][0]["detections"][0], *BY_RULE}
    assert {key for key in keys if f"`{key}`" not in PAGE} == set()
