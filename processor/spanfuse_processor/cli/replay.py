"""`replay`: what the rules would have done to recorded traffic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from spanfuse_processor.cli.group import Problem
from spanfuse_processor.cli.options import config_option, dollars, format_option, print_json, printable

if TYPE_CHECKING:
    from rich.table import Table

    from spanfuse_processor.hosts.replay_report import Report, SessionReport

MAX_ROWS: Final = 20
"""Sessions shown as text; the report has all."""


@click.command()
@click.argument(
    "files", nargs=-1, required=True, metavar="FILES...", type=click.Path(exists=True, allow_dash=True, path_type=Path)
)
@config_option
@click.option(
    "--report",
    "report_path",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the whole report there, JSON.",
)
@format_option
def replay(files: tuple[Path, ...], config_path: Path | None, report_path: Path | None, output: str) -> None:
    """Try the rules on recorded traffic, without side effects.

    FILES are OTLP JSON lines, OTLP JSON documents, protobuf requests (.bin, .pb), gzipped or not, or directories of them;
    `-` and pipes are JSON lines, gzipped or not.
    For each session: which model call would have been the first refused, and by which rule.

    \b
    Examples:
      spanfuse replay traces.jsonl.gz --config spanfuse.yaml --report report.json
      kubectl logs collector | spanfuse replay -
    """
    from spanfuse_processor.config import load_config
    from spanfuse_processor.hosts.prices import prices_of
    from spanfuse_processor.hosts.replay import replay_files

    config = load_config(config_path)
    if report_path is not None:
        report_path.touch()  # fail now rather than after an hour
    report = replay_files(config.policy(), files, prices=prices_of(config.pricing))
    if report_path is not None:
        _write(report_path, report)
    if output == "json":
        print_json(report.to_dict())
    else:
        _print(report)
    for problem in report.problems:
        click.echo(f"spanfuse: undecodable: {problem}", err=True)
    if not report.coverage["requests"]:
        raise Problem("nothing could be read")


def _write(path: Path, report: Report) -> None:
    import json

    with path.open("w", encoding="utf-8") as file:
        json.dump(report.to_dict(), file, ensure_ascii=False, indent=1)
        file.write("\n")


def _print(report: Report) -> None:
    from spanfuse_processor.cli.tables import PipedConsole

    console = PipedConsole()
    console.print(_coverage(report))
    if report.rules:
        console.print(_rules(report))
    blocked = [s for s in report.sessions.values() if s.blocked_at is not None]
    if blocked:
        console.print(_blocked(blocked[:MAX_ROWS]))
    more = len(blocked) - MAX_ROWS
    if more > 0:
        console.print(f"… and {more} more; all are in --report FILE.")
    console.print(f"{len(blocked)} of {len(report.sessions)} sessions would have been stopped.")


def _coverage(report: Report) -> Table:
    from spanfuse_processor.cli.tables import table
    from spanfuse_processor.hosts.replay_report import COVERAGE

    made = table("Coverage", ">count", "of what")
    for name, meaning in COVERAGE.items():
        made.add_row(str(report.coverage[name]), meaning)
    for reason, number in sorted(report.ingest.items()):
        made.add_row(str(number), f"spans that ingest counted as: {reason}")
    made.add_row(str(report.undecodable), "undecodable requests and files")
    return made


def _rules(report: Report) -> Table:
    from spanfuse_processor.cli.tables import table

    made = table("Detections", ">count", "rule")
    for rule, number in report.rules.most_common():
        made.add_row(str(number), rule)
    return made


def _blocked(sessions: list[SessionReport]) -> Table:
    from rich.text import Text

    from spanfuse_processor.cli.tables import table

    made = table("Sessions that would have been stopped", "session", ">calls", ">first refused", "=rule", ">money")
    for s in sessions:
        before = "" if s.blocked_at is None else str(s.blocked_at + 1)
        made.add_row(Text(printable(s.session)), str(s.calls), before, s.rule, dollars(s.cost_nano_usd))
    return made
