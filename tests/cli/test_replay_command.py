"""`replay` on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

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
