"""`replay` on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from spanfuse_schemas.budget import dollars
from tests.cli.conftest import Spanfuse
from tests.support.recorded import healthy, repeater, write_lines


def test_text_begins_with_the_coverage_and_names_the_sessions_that_would_have_been_stopped(
    spanfuse: Spanfuse, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "r.jsonl.gz", [*repeater(6, "runaway"), *healthy(4)])
    result = spanfuse("replay", path)
    assert result.exit_code == 0
    assert result.stdout.startswith("Coverage")
    assert "repeat.prompt" in result.stdout
    assert "1 of 2 sessions would have been stopped." in result.stdout


def test_the_report_file_and_the_json_output_are_the_same(spanfuse: Spanfuse, tmp_path: Path) -> None:
    path, report = write_lines(tmp_path / "r.jsonl", repeater(6)), tmp_path / "report.json"
    result = spanfuse("replay", path, "--report", report, "--format", "json")
    assert json.loads(result.stdout) == json.loads(report.read_text(encoding="utf-8"))
    assert json.loads(result.stdout)["sessions"][0]["blocked_at"] == 3


def test_the_configuration_decides(spanfuse: Spanfuse, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("detectors:\n  repeat.prompt: {count: 4}\n")
    result = spanfuse("replay", write_lines(tmp_path / "r.jsonl", repeater(6)), "--config", config, "--format", "json")
    assert json.loads(result.stdout)["sessions"][0]["blocked_at"] == 4


def test_the_prices_of_the_configuration_hold(spanfuse: Spanfuse, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("pricing: {models: {gpt-4o-mini: {input_usd_per_mtok: 10, output_usd_per_mtok: 50}}}\n")
    result = spanfuse("replay", write_lines(tmp_path / "r.jsonl", repeater(1)), "--config", config, "--format", "json")
    assert json.loads(result.stdout)["sessions"][0]["cost_nano_usd"] == 2_000_000  # 100 and 20 tokens


def test_bad_lines_are_shown_and_are_no_failure(spanfuse: Spanfuse, tmp_path: Path) -> None:
    result = spanfuse("replay", write_lines(tmp_path / "r.jsonl", ["garbage", *repeater(2)]), "--format", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["undecodable"] == 1
    assert "r.jsonl:1" in result.stderr


def test_nothing_that_could_be_read_is_a_failure(spanfuse: Spanfuse, tmp_path: Path) -> None:
    result = spanfuse("replay", write_lines(tmp_path / "r.jsonl", ["garbage"]))
    assert result.exit_code == 1
    assert "nothing could be read" in result.stderr


def test_a_report_that_cannot_be_written_is_told_before_the_replay(spanfuse: Spanfuse, tmp_path: Path) -> None:
    result = spanfuse("replay", write_lines(tmp_path / "r.jsonl", []), "--report", tmp_path / "no" / "report.json")
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)


@pytest.mark.parametrize("source", ["-", "/dev/stdin"])
@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
def test_a_pipe_is_json_lines_gzipped_or_not(tmp_path: Path, source: str, name: str) -> None:
    data = write_lines(tmp_path / name, repeater(6)).read_bytes()
    command = [sys.executable, "-m", "spanfuse_processor", "replay", source, "--format", "json"]
    ran = subprocess.run(command, input=data, capture_output=True, timeout=60, check=True)
    assert json.loads(ran.stdout)["sessions"][0]["blocked_at"] == 3


def test_standard_input_that_is_closed_is_told(tmp_path: Path) -> None:
    command = f"exec {sys.executable} -m spanfuse_processor replay - <&-"
    ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    assert "nothing could be read" in ran.stderr


def test_text_and_report_number_the_calls_alike_and_tiny_sums_are_told(spanfuse: Spanfuse, tmp_path: Path) -> None:
    """Six calls of 27 millionths of a dollar, of which the fourth, number 3, would have been refused."""
    lines = spanfuse("replay", write_lines(tmp_path / "r.jsonl", repeater(6))).stdout.splitlines()
    rows = [line.split() for line in lines]
    assert ["s", "repeat.prompt", "#3", "6", "$0.000081"] in rows
    assert ["$0.00016", "spent"] in rows
    assert ["$0.000081", "50", "%", "by", "calls", "from", "the", "first", "refused", "one", "on"] in rows
    assert "Calls are numbered from 0." in lines


def test_text_fits_80_columns_and_names_no_more_than_20_sessions(spanfuse: Spanfuse, tmp_path: Path) -> None:
    names = [f"{n:03d}-{'long-' * 30}" for n in range(25)]
    path = write_lines(tmp_path / "r.jsonl", [r for name in names for r in repeater(5, name)])
    text = spanfuse("replay", path).stdout
    assert max(map(len, text.splitlines())) <= 80
    assert sum("#3" in line for line in text.splitlines()) == 20
    assert "… and 5 more; all are in --report FILE." in text


def test_the_sessions_that_would_have_saved_most_money_come_first(spanfuse: Spanfuse, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "r.jsonl", [*repeater(5, "little"), *repeater(9, "much"), *repeater(7, "more")])
    rows = [line.split() for line in spanfuse("replay", path).stdout.splitlines()]
    assert [row[0] for row in rows if "#3" in row] == ["much", "more", "little"]


def test_two_configurations_are_compared(spanfuse: Spanfuse, tmp_path: Path) -> None:
    config = tmp_path / "five.yaml"
    config.write_text("detectors:\n  repeat.prompt: {count: 5}\n  near: {mode: 'off'}\n")
    path = write_lines(tmp_path / "r.jsonl", [*repeater(5, "five"), *repeater(7, "seven")])
    asked = ("replay", path, "--config", config, "--compare", _empty(tmp_path))
    found = json.loads(spanfuse(*asked, "--format", "json").stdout)
    assert [s["blocked_at"] for s in found["sessions"]] == [None, 5]
    assert [s["session"] for s in found["diff"]["stopped_by_old_only"]] == ["five"]
    text = spanfuse(*asked).stdout
    assert "What --config changes against --compare" in text
    assert ["sessions", "stopped", "2", "1"] in [line.split() for line in text.splitlines()]
    assert max(map(len, text.splitlines())) <= 80


def test_the_old_name_of_the_option_still_works(spanfuse: Spanfuse, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "r.jsonl", repeater(4))
    asked = [
        spanfuse("replay", path, name, _empty(tmp_path), "--format", "json").stdout
        for name in ("--compare", "--against")
    ]
    assert asked[0] == asked[1]
    assert "diff" in json.loads(asked[0])


def test_a_pipe_is_compared_in_one_reading(spanfuse: Spanfuse, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "r.jsonl", repeater(6)).read_bytes()
    command = [
        sys.executable,
        "-m",
        "spanfuse_processor",
        "replay",
        "-",
        "--compare",
        str(_empty(tmp_path)),
        "--format=json",
    ]
    ran = subprocess.run(command, input=data, capture_output=True, timeout=60, check=True)
    totals = json.loads(ran.stdout)["diff"]["totals"]
    assert totals["old"] == totals["new"]
    assert totals["new"]["sessions_blocked"] == 1


def _empty(folder: Path) -> Path:
    path = folder / "empty.yaml"
    path.write_text("")
    return path


@pytest.mark.parametrize(
    ("nano_usd", "told"),
    [
        (0, "$0"),
        (1, "$0.000000001"),
        (27_000, "$0.000027"),
        (999_999, "$0.00100"),
        (10**6, "$0.0010"),
        (10**13, "$10,000.0000"),
    ],
)
def test_sums_of_money_have_as_many_decimals_as_they_need(nano_usd: int, told: str) -> None:
    assert dollars(nano_usd) == told
