"""Settings that were tried: each is replayed once, and what became of the labelled sessions is kept."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from spanfuse_processor.hosts.replay.report import Report
from spanfuse_processor.hosts.replay.totals import totals
from spanfuse_processor.hosts.tuning.labels import Label, Labels
from spanfuse_processor.hosts.tuning.score import Score, Stop, score, stop_of
from spanfuse_processor.hosts.tuning.settings import Changes, applied
from spanfuse_schemas import Policy

AT_ONCE: Final = 6
"""Policies replayed together: each call is read once for all of them, and each holds states of its own."""

Run = Callable[[Sequence[Policy]], list[Report]]
"""Replays the recording under policies, each on its own."""
Tell = Callable[[int, int], None]
"""Hears how many settings were tried, and how many it will be as far as is known."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of a recording under some settings."""

    stops: tuple[Stop, ...]
    """Of each labelled session, in the order of the labels."""
    stopped: int
    """Sessions stopped, of all."""
    saved_calls: int
    """Model calls from the first refused one on, of all sessions."""
    saved_nano_usd: int
    """Their money, nano-dollars."""


class Trials:
    """What was tried.

    Args:
        policy: the settings that changes are made to.
        base: what became of the recording under it.
        labels: of sessions, of which those count that the recording has.
        run: replays.
        tell: is told of progress.
    """

    def __init__(
        self, policy: Policy, base: Report, labels: Labels, run: Run, tell: Tell = lambda done, of: None
    ) -> None:
        self.policy = policy
        self.labels: tuple[Label, ...] = tuple(labels[name] for name in base.sessions if name in labels)
        self._run = run
        self._tell = tell
        self._same: dict[Stop, Stop] = {}
        self._known: dict[Changes, Trial] = {(): self._trial(base)}
        self._impossible = set[Changes]()

    def __getitem__(self, changes: Changes) -> Trial:
        return self._known[changes]

    @property
    def tried(self) -> list[Changes]:
        """All that was tried, in order."""
        return list(self._known)

    def run(self, many: Iterable[Changes], ahead: int = 0) -> list[Changes]:
        """Try settings; gives those that are possible.

        Args:
            ahead: how many more there will be.
        """
        asked = list(dict.fromkeys(many))
        new = [one for one in asked if one not in self._known and one not in self._impossible]
        policies = {one: applied(self.policy, one) for one in new}
        self._impossible |= {one for one, policy in policies.items() if policy is None}
        possible = [(one, policy) for one, policy in policies.items() if policy is not None]
        for start in range(0, len(possible), AT_ONCE):
            part = possible[start : start + AT_ONCE]
            reports = self._run([policy for _, policy in part])
            self._known |= {one: self._trial(report) for (one, _), report in zip(part, reports, strict=True)}
            self._tell(len(self._known), len(self._known) + len(possible) - start - len(part) + ahead)
        return [one for one in asked if one in self._known]

    def score(self, changes: Changes, among: Container[str] | None = None) -> Score:
        """What settings come to, on all labelled sessions or on some."""
        pairs = zip(self.labels, self._known[changes].stops, strict=True)
        return score(pair for pair in pairs if among is None or pair[0].session in among)

    def _trial(self, report: Report) -> Trial:
        sums = totals(report.sessions.values())
        stops = (stop_of(report.sessions[label.session]) for label in self.labels)
        return Trial(
            stops=tuple(self._same.setdefault(stop, stop) for stop in stops),
            stopped=sums["sessions_blocked"],
            saved_calls=sums["saved_calls"],
            saved_nano_usd=sums["saved_nano_usd"],
        )
