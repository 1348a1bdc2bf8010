"""The comparison as a table: a row a system, as text or as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.peers.adapter import Verdicts
from bench.peers.score import Label, labelled, score, stopped

Results = Mapping[str, Mapping[str, Verdicts]]
"""System → file → verdicts."""


def rows(results: Results, labels: Mapping[str, Label]) -> list[list[str]]:
    """The head, then a row a system."""
    made: list[list[str]] = []
    for system, files in results.items():
        scored = {name: verdicts for name, verdicts in files.items() if labelled(verdicts, labels)}
        cells = {"": system} | (_against_labels(list(scored.values()), labels) if scored else {})
        for name, verdicts in files.items():
            if name not in scored:
                cells[f"{name}: sessions stopped (of {len(verdicts.calls):,})"] = f"{stopped(verdicts):,}"
        if not made:
            made.append(list(cells))
        made.append(list(cells.values()))
    return made


def _against_labels(files: Sequence[Verdicts], labels: Mapping[str, Label]) -> dict[str, str]:
    found = score(files, labels)
    return {
        f"runaways stopped (of {found.runaways})": str(found.stopped),
        f"healthy stopped (of {found.healthy})": str(found.healthy_stopped),
        "too early": str(found.early),
        f"calls wasted after block_at (of {found.unguarded})": str(found.wasted),
        f"nudge cases stopped (of {found.nudges})": str(found.nudges_stopped),
    }


def notes(results: Results, labels: Mapping[str, Label]) -> list[str]:
    """What the table does not say: deaths, sessions counted differently, labels without a recording."""
    said = []
    for system, files in results.items():
        crashed = sum(len(verdicts.crashed) for verdicts in files.values())
        if crashed:
            said.append(f"{system}: its process died over {crashed} sessions, which count as let through.")
        for name, verdicts in files.items():
            ours = next(iter(results.values()))[name].calls
            other = sum(verdicts.calls.get(session) != calls for session, calls in ours.items())
            if other:
                said.append(f"{system}: {other} sessions of {name} have other numbers of calls than in the first row.")
    first = [verdicts for verdicts in next(iter(results.values())).values() if labelled(verdicts, labels)]
    missing = score(first, labels).missing
    if missing:
        said.append(f"{missing} labels belong to no session of a file that is scored.")
    return said


def as_text(table: Sequence[Sequence[str]]) -> str:
    """For a terminal: the head becomes a legend, since its cells are sentences."""
    head, *body = table
    legend = [f"  {chr(ord('a') + n)}  {cell}" for n, cell in enumerate(head[1:])]
    letters = ["", *(chr(ord("a") + n) for n in range(len(head) - 1))]
    width = max(len(row[0]) for row in body)
    lines = [f"{row[0]:<{width}}" + "".join(f"{cell:>7}" for cell in row[1:]) for row in [letters, *body]]
    return "\n".join([*legend, "", *lines])


def as_markdown(table: Sequence[Sequence[str]]) -> str:
    """For documents."""
    head, *body = table
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *body])
