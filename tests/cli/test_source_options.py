"""What is read, as it is said on the command line."""

from __future__ import annotations

import time
from pathlib import Path

import click
import pytest

from spanfuse_processor.cli.types import Moment
from tests.cli.conftest import Spanfuse

DAY_NS = 24 * 3600 * 10**9


@pytest.mark.parametrize(
    ("text", "at_ns"),
    [
        ("2026-01-31", 1_769_817_600 * 10**9),
        ("2026-01-31T12:00", 1_769_860_800 * 10**9),
        ("2026-01-31T12:00:00.25+01:00", 1_769_857_200 * 10**9 + 250_000_000),
        ("1769817600", 1_769_817_600 * 10**9),
    ],
)
def test_a_moment_is_utc_unless_it_names_a_zone(text: str, at_ns: int) -> None:
    assert Moment().convert(text, None, None) == at_ns


@pytest.mark.parametrize("text", ["2d", "-2d"])
def test_a_moment_may_be_so_long_ago(text: str) -> None:
    assert abs(time.time_ns() - 2 * DAY_NS - Moment().convert(text, None, None)) < 60 * 10**9


@pytest.mark.parametrize("text", ["yesterday", "12:00", "7 days", ""])
def test_what_is_no_moment_is_told(text: str) -> None:
    with pytest.raises(click.BadParameter, match="no time"):
        Moment().convert(text, None, None)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "name files, or a --topic"),
        (("FILE", "--topic", "t"), "not both"),
        (("FILE", "--from", "1d"), "for a --topic"),
        (("--topic", "t"), "say where Kafka is"),
        (("--topic", "t", "--brokers", "b:1", "--from", "1d", "--to", "2d"), "--from is not before --to"),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(
    spanfuse: Spanfuse, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    (path := tmp_path / "r.jsonl").write_text("")
    result = spanfuse("replay", *(path if a == "FILE" else a for a in arguments))
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())


def test_a_broker_that_is_away_is_told_in_one_line(spanfuse: Spanfuse, closed_port: int) -> None:
    result = spanfuse("replay", "--topic", "t", "--brokers", f"127.0.0.1:{closed_port}")
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert "does not answer" in result.stderr
