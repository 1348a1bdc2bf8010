"""What verdicts are worth, against what readers of the sessions say.

A label is a JSON object a line: `session`; `runaway`, one of `yes`, `nudge` (a word to the agent would do) and `no`; where it
is `yes`, `onset` and `block_at`: the 0-based indices of the first model call of the loop, and of the first that should not
have been made. Other fields do not matter.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.peers.adapter import Verdicts


@dataclass(frozen=True, slots=True)
class Label:
    """What readers say of one session."""

    session: str
    runaway: Literal["yes", "nudge", "no"]
    onset: int = 0
    block_at: int = 0


def load_labels(path: Path) -> dict[str, Label]:
    """Labels by session id.

    Raises:
        ValueError: a line is no label.
    """
    labels = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            label = _label(json.loads(line), f"{path.name}:{number}")
            labels[label.session] = label
    return labels


def _label(found: Mapping[str, object], where: str) -> Label:
    session, runaway = found.get("session"), found.get("runaway")
    if not isinstance(session, str) or runaway not in ("yes", "nudge", "no"):
        raise ValueError(f'{where}: needs "session" and "runaway": "yes", "nudge" or "no"')
    if runaway != "yes":
        return Label(session, "nudge" if runaway == "nudge" else "no")
    onset, block_at = found.get("onset"), found.get("block_at")
    if not isinstance(onset, int) or not isinstance(block_at, int):
        raise ValueError(f'{where}: a runaway needs "onset" and "block_at"')
    return Label(session, "yes", onset, block_at)


@dataclass(slots=True)
class Score:
    """Against labels. A stop counts only if a call is left that it stops."""

    runaways: int = 0
    stopped: int = 0
    """Runaways stopped at their onset or later."""
    early: int = 0
    """Runaways stopped before their onset, while they were still healthy."""
    missed: int = 0
    healthy: int = 0
    healthy_stopped: int = 0
    nudges: int = 0
    nudges_stopped: int = 0
    wasted: int = 0
    """Calls of runaways, those stopped early left out, that were let through from `block_at` on."""
    unguarded: int = 0
    """The same without any guard."""
    missing: int = 0
    """Labels of sessions that no recording has."""

    def add(self, label: Label, calls: int, refused: int | None) -> None:
        """Count one session."""
        stop = refused if refused is not None and refused < calls else None
        if label.runaway == "no":
            self.healthy += 1
            self.healthy_stopped += stop is not None
        elif label.runaway == "nudge":
            self.nudges += 1
            self.nudges_stopped += stop is not None
        else:
            self._runaway(label, calls, stop)

    def _runaway(self, label: Label, calls: int, stop: int | None) -> None:
        self.runaways += 1
        self.unguarded += calls - label.block_at
        if stop is None:
            self.missed += 1
            self.wasted += calls - label.block_at
        elif stop < label.onset:
            self.early += 1
        else:
            self.stopped += 1
            self.wasted += max(0, stop - label.block_at)


def labelled(verdicts: Verdicts, labels: Mapping[str, Label]) -> bool:
    """Whether a file is scored: at least half of its sessions have a label. Of any other, all sessions count alike."""
    return 2 * sum(session in labels for session in verdicts.calls) >= len(verdicts.calls)


def score(files: Iterable[Verdicts], labels: Mapping[str, Label]) -> Score:
    """Score the labelled sessions of files, each where it is first found."""
    total, waiting = Score(), dict(labels)
    for verdicts in files:
        for session, calls in verdicts.calls.items():
            label = waiting.pop(session, None)
            if label is not None:
                total.add(label, calls, verdicts.refused.get(session))
    total.missing = len(waiting)
    return total


def stopped(verdicts: Verdicts) -> int:
    """Sessions of a file that were stopped, whatever they were."""
    return sum(
        refused is not None and refused < verdicts.calls[session] for session, refused in verdicts.refused.items()
    )
