"""`doctor`: what spans can be used for, and what is in the way."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spanfuse_processor.cli.group import Problem
from spanfuse_processor.cli.options import brokers_option, config_option, format_option, print_json

if TYPE_CHECKING:
    from spanfuse_processor.config import Config
    from spanfuse_processor.hosts.doctor.checkup import Checkup

MESSAGES = 1_000
"""Messages of a topic that are read unless told otherwise: enough to see what is the rule, read within seconds."""


@click.command()
@click.argument("files", nargs=-1, metavar="[FILES]...", type=click.Path(exists=True, allow_dash=True, path_type=Path))
@click.option(
    "--topic",
    "topics",
    metavar="NAME",
    multiple=True,
    help="Check the newest messages of this topic, usually otlp_spans; may be given several times, as for otlp_logs.",
)
@click.option(
    "--messages",
    type=click.IntRange(1, 1_000_000),
    default=MESSAGES,
    show_default=True,
    help="Read at most so many messages of the topic, an equal share of each partition.",
)
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="Only messages of the last minutes.")
@config_option
@brokers_option
@format_option
def doctor(
    files: tuple[Path, ...],
    topics: tuple[str, ...],
    messages: int,
    minutes: float | None,
    config_path: Path | None,
    brokers: str | None,
    output: str,
) -> None:
    """Check whether spans can be used, and what is in the way.

    Says what is missing, doubled or wrong in them, what that means for detection and spend, and what to do.
    FILES are as those of `inspect`. A topic is read beside the workers, in no consumer group: nothing changes for them. One
    with `logs` in its name is taken to hold log records.
    Exit code 1 if there is a problem; warnings are none.

    \b
    Examples:
      spanfuse doctor traces.jsonl.gz
      spanfuse doctor --topic otlp_spans --config worker.yaml --minutes 60
    """
    if not files and not topics:
        raise click.UsageError("FILES or --topic is needed")
    if topics and config_path is None and brokers is None:
        raise click.UsageError("--topic needs one of --config and --brokers")
    from spanfuse_processor.config import load_config
    from spanfuse_processor.hosts.doctor.checkup import Checkup
    from spanfuse_processor.hosts.reading import normaliser_of, prices_of

    config: Config = load_config(config_path)
    checkup = Checkup(normaliser_of(config, prices_of(config.pricing)))
    checkup.files(files)
    for topic in sorted(topics):  # logs first: they wait for their spans
        _read_topic(checkup, topic, messages, minutes, config_path, brokers)
    findings = checkup.finished()
    if output == "json":
        print_json({"findings": [asdict(found) for found in findings], "undecodable": checkup.reading.problems})
    else:
        from spanfuse_processor.cli.doctor_text import show

        show(findings)
        for problem in checkup.reading.problems:
            click.echo(f"spanfuse: undecodable: {problem}", err=True)
    if any(found.severity == "problem" for found in findings):
        click.get_current_context().exit(1)


def _read_topic(
    checkup: Checkup, topic: str, messages: int, minutes: float | None, config_path: Path | None, brokers: str | None
) -> None:
    from spanfuse_processor.cli.kafka import kafka_settings, run_errand
    from spanfuse_processor.hosts.doctor.topic import newest

    settings = kafka_settings(config_path, brokers)
    if not run_errand(newest(settings, topic, messages, minutes, checkup.message)):
        raise Problem(f"{topic} has no messages" + ("" if minutes is None else f" of the last {minutes:g} minutes"))
