"""What a command reads that works on recorded traffic: files, or a time range of Kafka topics."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from spanfuse_processor.cli.options import brokers_option, config_option
from spanfuse_processor.cli.types import Moment

if TYPE_CHECKING:
    from spanfuse_processor.hosts.replay import Source

Command = TypeVar("Command", bound=Callable[..., Any])

files_or_topic = click.argument(
    "files", nargs=-1, metavar="[FILES...]", type=click.Path(exists=True, allow_dash=True, path_type=Path)
)
topic_option = click.option(
    "--topic",
    "topics",
    metavar="TOPIC",
    multiple=True,
    help="A Kafka topic, all of its partitions. May be given again, as for spans and their logs.",
)
from_option = click.option(
    "--from",
    "from_ns",
    metavar="TIME",
    type=Moment(),
    help="Begin with what was written then: 2026-01-31, 2026-01-31T12:00, 7d or -7d (ago), or seconds since the epoch. "
    "Default: with all that is kept.",
)
to_option = click.option(
    "--to", "to_ns", metavar="TIME", type=Moment(), help="End before what was written then. Default: now."
)
processes_option = click.option(
    "--processes",
    metavar="N",
    type=click.IntRange(1, 256),
    help="Processes at work; the result is the same. Default: as many as there are cores.",
)


def reads(*, files: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """With the options that say what is read: the command gets `source` in their place, and keeps `config_path`.

    Args:
        files: whether files can be read as well; otherwise topics only.
    """

    def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
        options = [config_option, topic_option, from_option, to_option, brokers_option]

        @wraps(command)
        def run(
            *args: Any, topics: tuple[str, ...], from_ns: int | None, to_ns: int | None, brokers: str | None,
            config_path: Path | None, files: tuple[Path, ...] = (), **more: Any,
        ) -> Any:  # fmt: skip
            source = source_of(files, topics, from_ns, to_ns, config_path, brokers)
            return command(*args, source=source, config_path=config_path, **more)

        found: Callable[..., Any] = run
        for option in [*reversed(options), *([files_or_topic] if files else [])]:
            found = option(found)
        return found

    return with_options


def source_of(
    files: tuple[Path, ...],
    topics: tuple[str, ...],
    from_ns: int | None,
    to_ns: int | None,
    config_path: Path | None,
    brokers: str | None,
) -> Source:
    """What is read.

    Raises:
        click.UsageError: files and topics are given, or neither.
        ConfigError: it is not said where Kafka is.
    """
    from spanfuse_processor.cli.kafka import kafka_settings
    from spanfuse_processor.hosts.replay import Files, TopicRange

    if bool(files) == bool(topics):
        raise click.UsageError("name files, or a --topic" + (", not both" if files else ""))
    if files:
        if from_ns is not None or to_ns is not None or brokers is not None:
            raise click.UsageError("--from, --to and --brokers are for a --topic")
        return Files(files)
    if from_ns is not None and (time.time_ns() if to_ns is None else to_ns) <= from_ns:
        raise click.UsageError("--from is not before --to")
    if config_path is None and brokers is None:
        raise click.UsageError("say where Kafka is: --config FILE with receivers.kafka, or --brokers")
    return TopicRange(kafka_settings(config_path, brokers), topics, from_ns, to_ns)
