"""`inspect`: what each span becomes, and why."""

from __future__ import annotations

from pathlib import Path

import click

from spanfuse_processor.cli.group import Problem
from spanfuse_processor.cli.options import config_option, files_argument, format_option, print_json


@click.command()
@files_argument
@config_option
@format_option
def inspect(files: tuple[Path, ...], config_path: Path | None, output: str) -> None:
    """Show what each span of a recording becomes, and why.

    FILES are as those of `replay`, and log records too: with `X.traces.bin`, `X.logs.bin` beside it is read, and content in
    log records is joined to its spans.
    For each span: the dialect that it speaks, whether it counts as a call and why not, its session and where that comes from,
    tokens, cost, and the tool calls. Of contents nothing is shown but the arguments of tool calls.
    With --format json it is one object a span, one a line, in the order of the recording. What belongs together is looked for
    among 20,000 spans at a time.

    \b
    Examples:
      spanfuse inspect traces.jsonl.gz --config spanfuse.yaml
      spanfuse inspect traces.jsonl --format json | jq 'select(.counted | not)'
    """
    from spanfuse_processor.cli.inspect_text import Shown
    from spanfuse_processor.config import load_config
    from spanfuse_processor.hosts.inspect import inspect as rows_of
    from spanfuse_processor.hosts.reading import normaliser_of, prices_of
    from spanfuse_processor.hosts.spans import Reading

    config, reading, shown = load_config(config_path), Reading(), Shown()
    for rows in rows_of(files, normaliser_of(config, prices_of(config.pricing)), reading):
        if output == "json":
            for row in rows:
                print_json(row)
        else:
            shown.show(rows)
    if output == "table":
        shown.sum_up(reading)
    for problem in reading.problems:
        click.echo(f"spanfuse: undecodable: {problem}", err=True)
    if not reading.requests:
        raise Problem("nothing could be read")
