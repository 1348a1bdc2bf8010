"""`replay`: what the rules would have done to recorded traffic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from spanfuse_processor.cli.group import Problem
from spanfuse_processor.cli.options import config_option, files_argument, format_option, print_json


@click.command()
@files_argument
@config_option
@click.option(
    "--against",
    "against_path",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Another configuration file: also say what --config changes against it.",
)
@click.option(
    "--report",
    "report_path",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the whole report there, JSON.",
)
@format_option
def replay(
    files: tuple[Path, ...], config_path: Path | None, against_path: Path | None, report_path: Path | None, output: str
) -> None:
    """Try the rules on recorded traffic, without side effects.

    FILES are OTLP JSON lines, OTLP JSON documents, protobuf requests (.bin, .pb), gzipped or not, or directories of them;
    `-` and pipes are JSON lines, gzipped or not.
    First comes how much of the traffic the rules could see; then for each session which model call would have been the
    first refused, by which rule, and what that would have saved. Calls are numbered from 0. The same recordings and
    configuration give the same report.

    \b
    Examples:
      spanfuse replay traces.jsonl.gz --config spanfuse.yaml --report report.json
      spanfuse replay traces.jsonl.gz --config tried.yaml --against spanfuse.yaml
      kubectl logs collector | spanfuse replay -
    """
    from spanfuse_processor.cli.replay_text import show
    from spanfuse_processor.config import load_config
    from spanfuse_processor.hosts.reading import normaliser_of, prices_of
    from spanfuse_processor.hosts.replay import replay_together
    from spanfuse_processor.hosts.replay_totals import diff

    configs = [load_config(path) for path in ((config_path,) if against_path is None else (config_path, against_path))]
    trials = [(c.policy(), normaliser_of(c, prices_of(c.pricing))) for c in configs]
    if report_path is not None:
        report_path.touch()  # fail now rather than after an hour
    counted, *against = replay_together(trials, files)
    report = counted.to_dict() | ({"diff": diff(against[0], counted)} if against else {})
    if report_path is not None:
        _write(report_path, report)
    if output == "json":
        print_json(report)
    else:
        show(report, counted)
    for problem in counted.problems:
        click.echo(f"spanfuse: undecodable: {problem}", err=True)
    if not counted.coverage["requests"]:
        raise Problem("nothing could be read")


def _write(path: Path, report: dict[str, Any]) -> None:
    import json

    with path.open("w", encoding="utf-8") as file:
        json.dump(report, file, ensure_ascii=False, indent=1)
        file.write("\n")
