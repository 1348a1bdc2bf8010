"""`replay`: what the rules would have done to recorded traffic."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spanfuse_processor.cli.group import Problem
from spanfuse_processor.cli.options import format_option, print_json, write_json
from spanfuse_processor.cli.source_options import processes_option, reads

if TYPE_CHECKING:
    from spanfuse_processor.config import Config
    from spanfuse_processor.hosts.replay import Report, Source


@click.command()
@reads(files=True)
@click.option(
    "--compare",
    "compare_path",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Another configuration file: also say what --config changes against it.",
)
@click.option("--against", "compare_path", type=click.Path(dir_okay=False, path_type=Path), hidden=True)
@processes_option
@click.option(
    "--report",
    "report_path",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the whole report there, JSON.",
)
@click.option(
    "--html",
    "html_path",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a report for people there, one file.",
)
@format_option
def replay(
    source: Source,
    config_path: Path | None,
    compare_path: Path | None,
    processes: int | None,
    report_path: Path | None,
    html_path: Path | None,
    output: str,
) -> None:
    """Try the rules on recorded traffic, without side effects.

    FILES are OTLP JSON lines, OTLP JSON documents, protobuf requests (.bin, .pb), what `record` has written, gzipped or not, or
    directories of them; `-` and pipes are JSON lines, gzipped or not. Instead of files, a time range of a Kafka topic can be
    replayed: `otlp_spans`, `spanfuse.calls`, or any other of their kind. It joins no consumer group, commits nothing and writes
    nothing.
    First comes how much of the traffic the rules could see; then for each session which model call would have been the
    first refused, by which rule, and what that would have saved. Calls are numbered from 0. The same recordings and
    configuration give the same report, however many processes are at work.

    \b
    Examples:
      spanfuse replay traces.jsonl.gz --config spanfuse.yaml --report report.json
      spanfuse replay --topic spanfuse.calls --from 7d --config worker.yaml
      spanfuse replay traces.jsonl.gz --config tried.yaml --compare spanfuse.yaml
      kubectl logs collector | spanfuse replay -
    """
    from spanfuse_processor.cli.replay_text import show
    from spanfuse_processor.config import load_config
    from spanfuse_processor.hosts.replay.diff import diff

    configs = [load_config(path) for path in ((config_path,) if compare_path is None else (config_path, compare_path))]
    for path in filter(None, (report_path, html_path)):
        path.touch()  # fail now rather than after an hour
    counted, *compared = _replayed(source, configs, processes, html_path)
    report = counted.to_dict() | ({"diff": diff(compared[0], counted)} if compared else {})
    if report_path is not None:
        write_json(report_path, report)
    if output == "json":
        print_json(report)
    else:
        show(report, counted)
    for problem in counted.problems:
        click.echo(f"spanfuse: undecodable: {problem}", err=True)
    if not counted.coverage["requests"]:
        raise Problem("nothing could be read")


def _replayed(source: Source, configs: list[Config], processes: int | None, html: Path | None) -> list[Report]:
    """A report for each configuration; those that read spans alike are replayed together."""
    from spanfuse_processor.cli.progress import bars
    from spanfuse_processor.hosts.replay import cores, replay_calls, spools_of

    hands = processes or cores()
    with bars() as progress, ExitStack() as stack:
        spools = [stack.enter_context(spool) for spool in spools_of(source, configs, progress, processes=hands)]
        reports: dict[int, Report] = {}
        for spool in dict.fromkeys(spools):
            mine = [at for at, one in enumerate(spools) if one is spool]
            policies = [configs[at].policy() for at in mine]
            found = replay_calls(spool, policies, processes=hands, progress=progress)
            reports.update(zip(mine, found, strict=True))
        if html is not None:
            from spanfuse_processor.report.files import write_replay

            write_replay(html, spools[0], reports[0], reports.get(1))
    return [reports[at] for at in range(len(configs))]
