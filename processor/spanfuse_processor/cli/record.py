"""`record`: traffic as files without content."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from spanfuse_processor.cli.group import Problem
from spanfuse_processor.cli.options import format_option, print_json
from spanfuse_processor.cli.source_options import processes_option, reads

if TYPE_CHECKING:
    from spanfuse_processor.hosts.replay import Source


@click.command()
@reads(files=False)
@click.option(
    "--out",
    "out",
    metavar="DIR|FILE",
    required=True,
    type=click.Path(path_type=Path),
    help="A directory, for files of 256 MB before they are compressed; or one file, if it ends with .jsonl or .jsonl.gz.",
)
@processes_option
@format_option
def record(source: Source, config_path: Path | None, out: Path, processes: int | None, output: str) -> None:
    """Write a time range of a topic to files, without content.

    Spans become calls with fingerprints in place of texts, as they do in a worker with that --config; calls of `spanfuse.calls`
    stay as they are. `replay` and `tune` read the files, and come to the same as from the topic. Names of sessions, users,
    agents and tools are kept as they are.
    It joins no consumer group, commits nothing and writes nothing to Kafka.

    \b
    Examples:
      spanfuse record --topic otlp_spans --from 7d --config worker.yaml --out week/
      spanfuse record --topic spanfuse.calls --from 2026-01-30 --to 2026-01-31 --config worker.yaml --out day.jsonl.gz
    """
    from spanfuse_processor.cli.progress import bars
    from spanfuse_processor.config import load_config
    from spanfuse_processor.hosts.replay import TopicRange, cores
    from spanfuse_processor.hosts.replay import record as write

    assert isinstance(source, TopicRange)
    with bars() as progress:
        name, hands = "+".join(source.topics), processes or cores()
        written = write(source, load_config(config_path), out, progress, processes=hands, name=name)
    for problem in written.read.problems:
        click.echo(f"spanfuse: undecodable: {problem}", err=True)
    if output == "json":
        print_json({"files": [str(path) for path in written.files], "calls": written.calls})
    else:
        for path in written.files:
            click.echo(path)
        click.echo(f"{written.calls:,} calls of {written.read.requests:,} messages")
    if not written.read.requests:
        raise Problem("nothing could be read")
