"""Reports of what was replayed, as files: pages, and the sessions drawn on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from spanfuse_processor.hosts.replay import Report, Spool
from spanfuse_processor.hosts.tuning.spooled import calls_in
from spanfuse_processor.hosts.tuning.study import Study
from spanfuse_processor.report import replayed, tuned
from spanfuse_processor.report.timelines import Timeline, Timelines
from spanfuse_processor.report.written import write


def write_replay(path: Path, spool: Spool, report: Report, old: Report | None = None) -> None:
    """The page of a replay.

    Args:
        spool: what was replayed.
        old: what another policy does, which it is compared with.
    """
    lines = _drawn(spool, replayed.chosen(report, old), report, old)
    write(replayed.replayed(report, old, lines), path)


def write_study(path: Path, spool: Spool, study: Study) -> None:
    """The page of a study."""
    report, old = study.then or study.now, study.now if study.then is not None else None
    write(tuned.tuned(study, _drawn(spool, tuned.chosen(study), report, old)), path)


def _drawn(spool: Spool, names: Mapping[str, list[str]], report: Report, old: Report | None) -> dict[str, Timeline]:
    sessions = [report.sessions[name] for some in names.values() for name in some]
    lines = Timelines(sessions, old.sessions if old is not None else None)
    if sessions:
        lines.add(calls_in(spool))
    return {line.session: line for line in lines.all()}
