"""docs/tuning.md shows what its example prints, and names what is swept and reported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner, Result

from spanfuse_processor.cli import cli
from spanfuse_processor.hosts.tuning.grid import ASKED_ONLY, GRID
from spanfuse_processor.hosts.tuning.labels import Label
from spanfuse_processor.hosts.tuning.study import VERDICTS, Verdict

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
COMMAND = next(line for line in PAGE.splitlines() if line.startswith("spanfuse tune examples/"))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Result, Path]]:
    """The example, and the folder of its files."""
    folder = tmp_path_factory.mktemp("tuned")
    arguments = [str(folder / a) if a.startswith(("policy.", "tune.")) else a for a in COMMAND.split()[1:]]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        yield CliRunner().invoke(cli, [*arguments, "--report", str(folder / "tune.json")]), folder


def test_the_example_prints_what_is_shown(ran: tuple[Result, Path]) -> None:
    result, folder = ran
    printed = "".join(f"{line.rstrip()}\n" for line in result.stdout.splitlines())
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert shown.rpartition("policy.yaml")[0] in printed.replace(f"{folder}/", "").replace(str(folder), "")
    assert (folder / "policy.yaml").read_text(encoding="utf-8").endswith("repeat.prompt:\n    count: 4\n")


def test_every_key_of_the_report_is_named(ran: tuple[Result, Path]) -> None:
    report: dict[str, Any] = json.loads((ran[1] / "tune.json").read_text(encoding="utf-8"))
    point = report["recommended"]
    keys = {
        *report,
        *report["labels"],
        *report["held_out"],
        *point,
        *point["score"],
        *point["all"],
        *report["by_tool"][0],
    }
    assert {key for key in keys if f"`{key}`" not in PAGE} - {
        "calls_to_stop_p95",
        "seconds_p95",
        "nano_usd_p95",
    } == set()


def test_every_verdict_and_every_key_of_a_label_is_explained() -> None:
    assert set(VERDICTS) == set(get_args(Verdict))
    for name in (*VERDICTS, *Label.model_fields):
        assert f"| `{name}` |" in PAGE


def test_the_labels_shown_are_labels() -> None:
    (lines,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert [Label.from_json(line).label for line in lines.splitlines()] == ["runaway", "good", "either"]


def test_the_table_of_what_is_swept_is_that_of_the_code() -> None:
    for rule, settings in GRID.items():
        values = "; ".join(f"`{name}`: {', '.join(map(_said, values))}" for name, values in settings.items())
        assert f"| `{rule}` | {values} | {'' if rule in ASKED_ONLY else 'yes'} |" in PAGE


def _said(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
