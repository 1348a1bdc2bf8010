"""What holds for every command: help, exit codes, one clear line for what went wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from pydantic import BaseModel, field_serializer

from spanfuse_processor.cli import cli
from spanfuse_processor.cli.docs import markdown
from spanfuse_processor.cli.group import SpanfuseGroup
from tests.cli.conftest import Spanfuse

COMMANDS = [
    "up",
    "worker",
    "api",
    "proxy",
    "topics",
    "validate",
    "demo",
    "status",
    "sessions",
    "breakers",
    "explain",
    "reset",
    "agents",
    "insights",
    "benchmark",
    "budget",
    "policy",
    "events",
    "alerts",
    "tail",
    "inspect",
    "doctor",
    "record",
    "replay",
    "tune",
    "completion",
]


def commands(group: click.Group = cli, *names: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *names, name)
        else:
            yield (*names, name)


@pytest.mark.parametrize("names", list(commands()), ids=" ".join)
def test_the_help_of_each_command_shows_an_example(spanfuse: Spanfuse, names: tuple[str, ...]) -> None:
    result = spanfuse(*names, "--help")
    assert result.exit_code == 0
    assert f"spanfuse {' '.join(names)}" in result.output.partition("Example")[2]


def test_the_commands_are_listed_in_the_order_in_which_they_are_met(spanfuse: Spanfuse) -> None:
    lines = spanfuse("--help").output.partition("Commands:")[2].splitlines()
    assert [line.split()[0] for line in lines if line.strip()] == COMMANDS


def test_help_imports_nothing_heavy() -> None:
    heavy = "asyncio pydantic httpx rich faust aiokafka opentelemetry starlette uvicorn yaml"
    code = f"import sys; import spanfuse_processor.cli; print(*(set('{heavy}'.split()) & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert found.stdout.split() == []


def test_it_runs_as_a_module() -> None:
    module = [sys.executable, "-m", "spanfuse_processor", "--version"]
    found = subprocess.run(module, capture_output=True, text=True, timeout=30, check=True)
    assert found.stdout.startswith("spanfuse, version ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["status", "--no-such-option"],
        ["status", "--format", "xml"],
        ["reset"],
        ["reset", "checkout-42"],
        ["reset", "planet:earth"],
        ["reset", "session:"],
        ["reset", "model:m", "--brokers", "127.0.0.1:1"],
        ["worker"],
        ["validate"],
        ["topics", "create"],
        ["replay"],
        ["replay", "no-such-file.jsonl"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(spanfuse: Spanfuse, arguments: list[str]) -> None:
    result = spanfuse(*arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr
    assert result.stdout == ""


def test_a_configuration_file_that_is_not_there_is_a_problem_in_one_line(spanfuse: Spanfuse, tmp_path: Path) -> None:
    for command in ("up", "worker", "validate"):
        result = spanfuse(command, "--config", tmp_path / "missing.yaml")
        assert result.exit_code == 1
        assert len(result.stderr.splitlines()) == 1
        assert "missing.yaml" in result.stderr


def test_the_reference_is_made_from_the_commands() -> None:
    """If this fails: python -m spanfuse_processor.cli.docs > docs/cli.md"""
    written = Path(__file__).parents[2] / "docs" / "cli.md"
    assert written.read_text(encoding="utf-8") == markdown()


class Interrupted(BaseModel):
    """Is written as somebody presses Ctrl-C."""

    @field_serializer("at", check_fields=False)
    def interrupt(self, value: int) -> int:
        raise KeyboardInterrupt

    at: int = 1


def test_ctrl_c_while_json_is_written_is_ctrl_c() -> None:
    @click.group(cls=SpanfuseGroup)
    def group() -> None: ...

    @group.command()
    def write() -> None:
        Interrupted().model_dump_json()

    result = CliRunner().invoke(group, ["write"])
    assert (result.exit_code, result.output) == (130, "")
