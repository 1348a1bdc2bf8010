"""`validate` and `topics create`: before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from spanfuse_processor.cli.group import Problem
from spanfuse_processor.cli.options import (
    brokers_option,
    config_option,
    format_option,
    print_json,
    required_config_option,
)
from spanfuse_processor.errors import ConfigError

if TYPE_CHECKING:
    from spanfuse_schemas import Budget


@click.command()
@required_config_option
@format_option
def validate(config_path: Path, output: str) -> None:
    """Check a configuration file, and print every problem with its path and line.

    \b
    Example:
      spanfuse validate --config spanfuse.yaml
    """
    from spanfuse_processor.config import load_config
    from spanfuse_processor.core.budgets import described

    problems: list[str] = []
    hints: list[str] = []
    budgets: tuple[Budget, ...] = ()
    try:
        config = load_config(config_path)
        budgets, hints = config.policy().budgets, config.hints()
    except ConfigError as error:
        problems = error.problems
    if output == "json":
        listed = [budget.model_dump(by_alias=True, exclude_none=True) for budget in budgets]
        print_json({"valid": not problems, "problems": problems, "hints": hints, "budgets": listed})
        click.get_current_context().exit(1 if problems else 0)
    if problems:
        raise Problem("\n".join(problems))
    click.echo(f"{config_path}: no problems")
    for budget in budgets:
        click.echo(f"  budget {budget.name}: {described(budget)}")
    for hint in hints:
        click.echo(f"  {hint}", err=True)


@click.group()
def topics() -> None:
    """The Kafka topics of a stream deployment."""


@topics.command()
@config_option
@brokers_option
@format_option
def create(config_path: Path | None, brokers: str | None, output: str) -> None:
    """Create the topics that are missing, with the settings they need.

    Topics that exist are left as they are; exit code 1 if they differ from what is needed.

    \b
    Example:
      spanfuse topics create --config worker.yaml --brokers kafka:9092
    """
    if config_path is None and brokers is None:
        raise click.UsageError("one of --config and --brokers is needed")
    from dataclasses import asdict

    from spanfuse_processor.cli.kafka import kafka_settings, run_errand
    from spanfuse_processor.hosts.topics import create_topics

    reports = run_errand(create_topics(kafka_settings(config_path, brokers)))
    if output == "json":
        print_json({"topics": [asdict(report) for report in reports]})
    else:
        for report in reports:
            click.echo(f"{report.name}: {'created' if report.created else 'was there'}")
    differences = [f"{report.name}: {difference}" for report in reports for difference in report.differences]
    if differences:
        raise Problem("\n".join(differences))
