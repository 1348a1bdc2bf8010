"""`tune` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Spanfuse
from tests.support.recorded import write_lines
from tests.support.studied import fleet

SWEEP = ("--sweep", "repeat.prompt.count=2,3,4,5")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A recording and its labels."""
    folder = tmp_path_factory.mktemp("recorded")
    requests, labels = fleet(6, 3, 12)
    path = folder / "labels.jsonl"
    path.write_text("".join(f"{label.to_json().decode()}\n" for label in labels.values()), encoding="utf-8")
    return write_lines(folder / "traces.jsonl.gz", requests), path


def test_what_is_recommended_is_told_and_written(
    spanfuse: Spanfuse, recorded: tuple[Path, Path], tmp_path: Path
) -> None:
    traces, labels = recorded
    out, report, page = tmp_path / "policy.yaml", tmp_path / "tune.json", tmp_path / "tune.html"
    asked = ("tune", traces, "--labels", labels, *SWEEP, "--out", out, "--report", report, "--html", page)
    result = spanfuse(*asked)
    assert (result.exit_code, result.stderr) == (0, "")
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["runaways", "stopped", "6", "of", "6", "6", "of", "6"] in rows
    assert ["good", "sessions", "stopped", "3", "of", "15", "0", "of", "15"] in rows
    assert ["repeat.prompt.count", "3", "4"] in rows
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert yaml.safe_load(out.read_text(encoding="utf-8")) == {"detectors": {"repeat.prompt": {"count": 4}}}
    assert json.loads(report.read_text(encoding="utf-8"))["policy"] == {"detectors": {"repeat.prompt": {"count": 4}}}
    assert "<h1>How the circuit breaker should be set</h1>" in page.read_text(encoding="utf-8")


def test_the_policy_file_is_valid(spanfuse: Spanfuse, recorded: tuple[Path, Path], tmp_path: Path) -> None:
    traces, labels = recorded
    assert spanfuse("tune", traces, "--labels", labels, *SWEEP, "--out", tmp_path / "p.yaml").exit_code == 0
    assert spanfuse("validate", "--config", tmp_path / "p.yaml").exit_code == 0
    tuned = spanfuse("replay", traces, "--config", tmp_path / "p.yaml", "--format", "json")
    assert json.loads(tuned.stdout)["totals"]["sessions_blocked"] == 6


def test_where_nothing_is_recommended_no_file_is_left(
    spanfuse: Spanfuse, recorded: tuple[Path, Path], tmp_path: Path
) -> None:
    traces, labels = recorded
    allowed = ("--max-good-stopped", "50", "--sweep", "repeat.prompt.count=3,4", "--out", tmp_path / "p.yaml")
    result = spanfuse("tune", traces, "--labels", labels, *allowed)
    # However long the path is, and wherever the line is broken for it.
    assert "p.yaml:notwritten,sincenothingisrecommended." in "".join(result.stdout.split())
    assert not (tmp_path / "p.yaml").exists()


def test_success_markers_stand_in_for_labels_which_go_first(spanfuse: Spanfuse, recorded: tuple[Path, Path]) -> None:
    traces, labels = recorded
    marked = spanfuse("tune", traces, "--success", "agent=good,patient", *SWEEP, "--format", "json")
    found = json.loads(marked.stdout)
    assert (found["labels"]["good"], found["labels"]["unlabelled"]) == (15, 6)
    both = spanfuse("tune", traces, "--labels", labels, "--success", "session=*", *SWEEP, "--format", "json")
    assert json.loads(both.stdout)["labels"]["runaway"] == 6


def test_without_labels_it_is_told_what_each_value_would_stop(spanfuse: Spanfuse, recorded: tuple[Path, Path]) -> None:
    text = spanfuse("tune", recorded[0], *SWEEP).stdout
    rows = [line.split() for line in text.splitlines()]
    assert ["as", "configured", "9", "84", "$0.0023"] in rows
    assert ["repeat.prompt.count:", "4", "6", "66", "$0.0018"] in rows
    assert "runaway" not in text


def test_the_configuration_is_where_it_begins(spanfuse: Spanfuse, recorded: tuple[Path, Path], tmp_path: Path) -> None:
    traces, labels = recorded
    (tmp_path / "c.yaml").write_text("detectors: {repeat.prompt: {count: 4, min_interval_s: 0.5}}\n")
    result = spanfuse("tune", traces, "--labels", labels, "--config", tmp_path / "c.yaml", *SWEEP, "--format", "json")
    assert json.loads(result.stdout)["verdict"] == "keep"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--out", "p.yaml"), "--out needs --labels or --success"),
        (("--sweep", "nothing"), "--sweep nothing: no setting of a rule"),
        (("--success", "luck"), "'luck' marks no session"),
        (("--success", "session=nobody"), "no labelled session is in the recording"),
    ],
)
def test_what_cannot_be_is_told(
    spanfuse: Spanfuse, recorded: tuple[Path, Path], options: tuple[str, ...], said: str
) -> None:
    result = spanfuse("tune", recorded[0], *options)
    assert result.exit_code in (1, 2)
    assert said in result.stderr


def test_bad_labels_are_told_by_line(spanfuse: Spanfuse, recorded: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "l.jsonl").write_text('{"session": "a", "label": "odd"}\n')
    result = spanfuse("tune", recorded[0], "--labels", tmp_path / "l.jsonl")
    assert result.exit_code == 1
    assert "l.jsonl:1: label:" in result.stderr


def test_a_replay_has_a_page_too(spanfuse: Spanfuse, recorded: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("detectors: {repeat.prompt: {count: 5}}\n")
    asked = ("replay", recorded[0], "--compare", tmp_path / "c.yaml", "--html", tmp_path / "r.html")
    assert spanfuse(*asked).exit_code == 0
    assert "Stopped now, and not before" in (tmp_path / "r.html").read_text(encoding="utf-8")
