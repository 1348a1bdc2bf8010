"""The findings of `doctor` for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.text import Text

from spanfuse_processor.cli.options import printable
from spanfuse_processor.cli.tables import PipedConsole, table
from spanfuse_processor.hosts.doctor.finding import Finding

_STYLES = {"ok": "green", "warn": "yellow", "problem": "bold red"}


def show(findings: Sequence[Finding]) -> None:
    """Print findings, the worst first."""
    console = PipedConsole()
    made = table("Findings", "=severity", "=check", "what was found, what it means, what to do")
    for severity in ("problem", "warn", "ok"):
        for found in findings:
            if found.severity == severity:
                made.add_row(Text(severity, _STYLES[severity]), found.check, Text("\n".join(_lines(found))))
    console.print(made)
    counted = Counter(found.severity for found in findings)
    console.print(
        Text(f"{counted['problem']} problems, {counted['warn']} warnings, {counted['ok']} checks are all right.")
    )


def _lines(found: Finding) -> Iterator[str]:
    yield printable(found.what)
    if found.means:
        yield found.means
    if found.do:
        yield f"→ {found.do}"
