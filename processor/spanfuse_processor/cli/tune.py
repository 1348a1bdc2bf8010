"""`tune`: which settings would have stopped the runaways of a recording, and left the good sessions alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from spanfuse_processor.cli.group import Problem
from spanfuse_processor.cli.options import format_option, print_json, write_json
from spanfuse_processor.cli.source_options import processes_option, reads

if TYPE_CHECKING:
    from spanfuse_processor.hosts.replay import Source

_written_file = click.Path(dir_okay=False, path_type=Path)


@click.command()
@reads(files=True)
@click.option(
    "--labels",
    "label_paths",
    metavar="FILE",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What people say of sessions, JSON lines such as "
    '{"session": ID, "label": "runaway", "onset": 4, "block_at": 6}; label: runaway, good or either. '
    "May be given again.",
)
@click.option(
    "--success",
    "markers",
    metavar="MARK",
    multiple=True,
    help="Sessions without a label that are taken for good: agent=GLOB, team=GLOB, model=GLOB, session=GLOB, finish=REASON (of "
    "the last model call), or sessions=FILE, an id a line. Values parted by commas; all of several have to hold.",
)
@click.option(
    "--sweep",
    "swept",
    metavar="RULE[.SETTING=V,V]",
    multiple=True,
    help="What is tried: a rule with its usual values, or a setting with these. Default: all rules on loops that block.",
)
@click.option(
    "--max-good-stopped",
    "percent",
    metavar="PERCENT",
    type=click.FloatRange(0, 100),
    default=0.0,
    show_default=True,
    help="Good sessions that may be stopped, percent.",
)
@click.option(
    "--out", "out_path", metavar="FILE", type=_written_file, help="Write what is recommended there, a policy file."
)
@click.option("--report", "report_path", metavar="FILE", type=_written_file, help="Write the whole report there, JSON.")
@click.option(
    "--html", "html_path", metavar="FILE", type=_written_file, help="Write a report for people there, one file."
)
@processes_option
@format_option
def tune(
    source: Source,
    config_path: Path | None,
    label_paths: tuple[Path, ...],
    markers: tuple[str, ...],
    swept: tuple[str, ...],
    percent: float,
    out_path: Path | None,
    report_path: Path | None,
    html_path: Path | None,
    processes: int | None,
    output: str,
) -> None:
    """Try settings on recorded traffic, and say which are best for the sessions that somebody has read.

    Reads what `replay` reads. With labels it looks for the settings that stop no more good sessions than allowed, then most
    runaways, then the earliest, then nearest to those configured; it recommends them if they also do better on sessions that
    did not choose them. Without labels it says what each value would stop, and not whether that would be right. The same
    recording, labels and configuration give the same report. Exit code 1 if no labelled session is in the recording.

    \b
    Examples:
      spanfuse tune traces.jsonl.gz --config spanfuse.yaml --labels labels.jsonl --out policy.yaml --html tune.html
      spanfuse tune --topic spanfuse.calls --from 7d --config worker.yaml --labels labels.jsonl --success finish=stop
      spanfuse tune traces.jsonl.gz --labels labels.jsonl --sweep repeat.no_progress.count=2,3,4 --sweep drift
      spanfuse tune traces.jsonl.gz --sweep limits
    """
    from spanfuse_processor.cli.progress import bars
    from spanfuse_processor.cli.tune_text import show
    from spanfuse_processor.config import load_config
    from spanfuse_processor.hosts.replay import cores
    from spanfuse_processor.hosts.tuning.asked import Asked
    from spanfuse_processor.hosts.tuning.written import write

    asked = Asked.read(load_config(config_path), label_paths, markers, swept, percent, processes or cores())
    if out_path is not None and not asked.judged:
        raise click.UsageError("--out needs --labels or --success: nothing is recommended without")
    for path in filter(None, (out_path, report_path, html_path)):
        path.touch()  # fail now rather than after an hour
    with bars() as progress, asked.spooled(source, progress) as spool:
        found = asked.studied(spool, progress)
        if html_path is not None:
            from spanfuse_processor.report.files import write_study

            write_study(html_path, spool, found)
    if out_path is not None:
        write(out_path, found)
    if report_path is not None:
        write_json(report_path, found.to_dict())
    if output == "json":
        print_json(found.to_dict())
    else:
        show(found, out_path)
    for problem in found.now.problems:
        click.echo(f"spanfuse: undecodable: {problem}", err=True)
    if not found.now.coverage["requests"]:
        raise Problem("nothing could be read")
    if asked.judged and not found.trials.labels:
        raise Problem("no labelled session is in the recording")
