"""`validate` and the settings with which commands reach Kafka."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from spanfuse_processor.cli.kafka import kafka_settings
from spanfuse_processor.errors import ConfigError
from tests.cli.conftest import Spanfuse


def test_validate_prints_every_problem_with_its_line_and_exits_with_1(spanfuse: Spanfuse, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("detectors:\n  cycle: {rounds: 1}\nservice:\n  mod: enforce\n")
    result = spanfuse("validate", "--config", path)
    assert result.exit_code == 1
    assert result.stdout == ""
    first, second = result.stderr.splitlines()
    assert f"{path}:2: detectors.cycle.rounds" in first
    assert f"{path}:4: service.mod" in second
    shown = json.loads(spanfuse("validate", "--config", path, "--format", "json").stdout)
    assert (shown["valid"], len(shown["problems"])) == (False, 2)


def test_a_good_file_is_told_and_exits_with_0(spanfuse: Spanfuse, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("service: {mode: enforce}\n")
    result = spanfuse("validate", "--config", path)
    assert (result.exit_code, result.stdout) == (0, f"{path}: no problems\n")
    assert json.loads(spanfuse("validate", "--config", path, "--format", "json").stdout)["valid"] is True


def test_the_budgets_of_a_file_are_shown_as_they_were_understood(spanfuse: Spanfuse, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "budgets:\n"
        "  user/daily: {limit_usd: 5, period: daily, time_zone: Europe/Berlin}\n"
        "  team/acme: {for: acme, limit_tokens: 1000000, mode: warn}\n"
        "  global: {limit_steps: 9, strength: strict}\n"
    )
    shown = spanfuse("validate", "--config", path)
    assert shown.stdout.splitlines()[1:] == [
        "  budget user/daily: each user $5.0000 daily (Europe/Berlin), soft, block",
        "  budget team/acme: team acme 1,000,000 tokens in all, soft, warn",
        "  budget global: all together 9 calls in all, strict, block",
    ]
    assert (shown.exit_code, "without extensions.ledger no Guard can reserve" in shown.stderr) == (0, True)
    shown = json.loads(spanfuse("validate", "--config", path, "--format", "json").stdout)
    assert [(b["name"], b["scope"], b["for"]) for b in shown["budgets"]] == [
        ("user/daily", "user", "*"), ("team/acme", "team", "acme"), ("global", "global", "*"),
    ]  # fmt: skip


def test_brokers_take_the_place_of_those_of_the_file_and_the_rest_stays(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    login = "{security_protocol: SASL_SSL, sasl_username: u, sasl_password: secret, partitions: 3}"
    path.write_text(f"receivers: {{kafka: {login}}}\n")
    settings = kafka_settings(path, "kafka:9092")
    assert (settings.brokers, settings.partitions, settings.sasl_username) == ("kafka:9092", 3, "u")
    assert settings.sasl_password.get_secret_value() == "secret"
    assert kafka_settings(None, "kafka:9092").brokers == "kafka:9092"


def test_brokers_that_are_none_are_told(spanfuse: Spanfuse) -> None:
    result = spanfuse("topics", "create", "--brokers", "nonsense")
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert "--brokers" in result.stderr


def test_a_file_without_kafka_is_told(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("service: {mode: enforce}\n")
    with pytest.raises(ConfigError, match=r"receivers\.kafka"):
        kafka_settings(path, None)


@pytest.mark.parametrize(
    "command", [["topics", "create"], ["reset", "session:a"], ["budget", "audit"]], ids=lambda c: c[0]
)
def test_kafka_that_is_away_is_one_line_and_exit_code_1(closed_port: int, command: list[str]) -> None:
    whole = [sys.executable, "-m", "spanfuse_processor", *command, "--brokers", f"127.0.0.1:{closed_port}"]
    result = subprocess.run(whole, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (1, "", 1)
    assert f"127.0.0.1:{closed_port}" in result.stderr
