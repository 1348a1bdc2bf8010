"""A study: what each setting would have done to labelled sessions, what is best, and whether that can be believed.

Without labels it says what each value would have stopped, and nothing of whether that would have been right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from spanfuse_processor.hosts.replay.report import Report
from spanfuse_processor.hosts.replay.totals import totals
from spanfuse_processor.hosts.tuning.descent import Goal, descend, live, probe
from spanfuse_processor.hosts.tuning.distribution import distribution
from spanfuse_processor.hosts.tuning.frontier import frontier
from spanfuse_processor.hosts.tuning.grid import Axis
from spanfuse_processor.hosts.tuning.held_out import HeldOut, doubts, held_out
from spanfuse_processor.hosts.tuning.labels import KINDS, Labels
from spanfuse_processor.hosts.tuning.settings import Changes, applied, sections, told
from spanfuse_processor.hosts.tuning.trials import Run, Tell, Trials
from spanfuse_schemas import Policy

Verdict = Literal["change", "allowance", "dear", "keep", "unconfirmed", "no_good", "no_labels"]

VERDICTS: Final[dict[Verdict, str]] = {
    "change": "Settings were found that are better, also on sessions that did not choose them.",
    "allowance": "As configured, more good sessions are stopped than are allowed. The least change that mends it is "
    "recommended, though sessions that did not choose it cannot confirm it.",
    "dear": "As configured, more good sessions are stopped than are allowed. What mends it lets runaways go on, and does not "
    "prove itself on sessions that did not choose it: nothing is recommended. The frontier shows the price: allow more, or "
    "choose there.",
    "keep": "No settings were found that are better than those configured.",
    "unconfirmed": "Settings were found that are better on these sessions, but not on sessions that did not choose them: "
    "they are not recommended.",
    "no_good": "No good session is labelled: whatever stops more looks better, so nothing is recommended.",
    "no_labels": "No session is labelled: what each value would have stopped is told, not whether that would have been right.",
}
"""What a study comes to."""
ALLOWED: Final = (5.0, 100.0)
"""Shares of good sessions stopped, percent, for which the best is looked for as well, so that the frontier has a far end."""


@dataclass
class Study:
    """What was found."""

    trials: Trials
    axes: Sequence[Axis]
    percent: float
    """Good sessions that may be stopped, percent."""
    labels: Labels
    """All labels that were given."""
    now: Report
    """What the configured settings do."""
    verdict: Verdict = "no_labels"
    probed: list[Changes] = field(default_factory=list)
    """Every value of the grid on its own."""
    points: list[Changes] = field(default_factory=list)
    """The frontier."""
    best: Changes = ()
    """The best on all labelled sessions."""
    recommended: Changes = ()
    """What should be changed."""
    held: HeldOut | None = None
    """What comes of choosing without the sessions that judge."""
    then: Report | None = None
    """What the recommended settings do; none: nothing is recommended."""
    narrow: bool = False
    """Whether settings were tried on the labelled sessions alone."""

    @property
    def policy(self) -> dict[str, Any]:
        """What should be changed, as sections of a policy."""
        return sections(self.trials.policy, self.recommended)

    def to_dict(self) -> dict[str, Any]:
        """As it is written."""
        kinds = Counter(label.label for label in self.trials.labels)
        missing = [name for name in self.labels if name not in self.now.sessions]
        sessions = len(self.now.sessions)
        found: dict[str, Any] = {
            "verdict": self.verdict,
            "why": VERDICTS[self.verdict],
            "sessions": sessions,
            "labels": {
                **{kind: kinds[kind] for kind in KINDS},
                "unlabelled": sessions - len(self.trials.labels),
                "not_recorded": len(missing),
            },
            "calls_per_session": distribution(
                {name: one.calls for name, one in self.now.sessions.items()},
                {label.session: label.label for label in self.trials.labels},
            ),
            "tried": len(self.trials.tried),
            "settings": [f"{axis.rule}.{axis.setting}" for axis in self.axes],
            "now": self.point(()),
            "values": [self.point(changes) for changes in self.probed],
        }
        if not self.trials.labels:
            return found
        score = self.trials.score(self.recommended)
        return found | {
            "max_good_stopped_percent": self.percent,
            "recommended": self.point(self.recommended),
            "best": self.point(self.best),
            "held_out": self.held.to_dict(self.percent) if self.held else None,
            "doubts": doubts(score, self.percent, self.held),
            "frontier": [self.point(changes) for changes in self.points],
            "by_tool": self.by_tool(),
            "policy": self.policy,
        }

    def by_tool(self) -> list[dict[str, Any]]:
        """Labelled sessions that the recommended settings stop, by rule and by the tool that the rule names, most good ones
        first: what a threshold for all would lose on one tool, an exception for it keeps."""
        then = self.then or self.now
        sums: dict[tuple[str, str], Counter[str]] = {}
        for label in self.trials.labels:
            one = then.sessions[label.session]
            if one.blocked_at is not None:
                told = next((d for d in one.detections if d.rule == one.rule and d.action == "block"), None)
                tool = str(told.evidence.get("tool", "")) if told is not None else ""
                sums.setdefault((one.rule, tool), Counter())[label.label] += 1
        rows = [
            {"rule": rule, "tool": tool, **{kind: found[kind] for kind in KINDS}}
            for (rule, tool), found in sorted(sums.items())
        ]
        return sorted(rows, key=lambda row: (-int(row["good"]), -int(row["runaway"])))

    def point(self, changes: Changes) -> dict[str, Any]:
        """Settings, and what they come to: on labelled sessions, and on all where all were replayed."""
        found: dict[str, Any] = {"settings": told(changes)}
        if self.trials.labels:
            found["score"] = self.trials.score(changes).to_dict()
        if (report := {self.recommended: self.then, (): self.now}.get(changes)) is not None:
            sums = totals(report.sessions.values())
            found["all"] = {name: sums[name] for name in ("sessions_blocked", "saved_calls", "saved_nano_usd")}
        elif not self.narrow:
            trial = self.trials[changes]
            found["all"] = {
                "sessions_blocked": trial.stopped,
                "saved_calls": trial.saved_calls,
                "saved_nano_usd": trial.saved_nano_usd,
            }
        return found


def study(
    policy: Policy,
    axes: Sequence[Axis],
    labels: Labels,
    run: Run,
    narrow: Run | None = None,
    *,
    percent: float = 0,
    tell: Tell = lambda done, of: None,
) -> Study:
    """Try settings on a recording.

    Args:
        policy: what is configured.
        axes: what is swept.
        labels: of sessions; those that the recording does not have are passed over.
        run: replays the recording.
        narrow: replays the labelled sessions alone, if what becomes of them does not depend on others.
        percent: good sessions that may be stopped, percent.
        tell: is told of progress.
    """
    (now,) = run([policy])
    trials = Trials(policy, now, labels, narrow or run, tell)
    found = Study(trials, axes, percent, labels, now, narrow=narrow is not None)
    probed = probe(trials, axes)
    found.probed = [one for tried in probed for one in tried if one]
    if not trials.labels:
        return found
    _search(found, live(trials, axes, probed))
    if found.recommended and (then := applied(policy, found.recommended)) is not None:
        (found.then,) = run([then])
    return found


def _search(found: Study, moving: Sequence[Axis]) -> None:
    trials, percent = found.trials, found.percent
    if not trials.score(()).good:
        found.verdict = "no_good"
        found.points = frontier(trials, found.axes)
        return
    found.best = descend(trials, moving, Goal(trials, moving, percent))
    for allowed in ALLOWED:
        descend(trials, moving, Goal(trials, moving, allowed, few=True))
    found.held = held_out(trials, moving, percent)
    found.points = frontier(trials, found.axes)
    found.verdict, found.recommended = _judged(found, moving)


def _judged(found: Study, moving: Sequence[Axis]) -> tuple[Verdict, Changes]:
    """What comes of it, and what is recommended.

    Settings that stop more, or earlier, have to prove themselves on sessions that did not choose them. Those that stop fewer
    good sessions than are allowed need not, unless runaways are the price: a single wrong stop is among the sessions that
    choose, or among those that judge, and never in both.
    """
    trials, percent = found.trials, found.percent
    now = trials.score(())
    if trials.score(found.best).worth(percent) >= now.worth(percent):
        return "keep", ()
    if found.held is not None and found.held.gains(percent):
        return "change", found.best
    if now.excess(percent):
        least = descend(trials, moving, Goal(trials, moving, percent, least=True))
        then = trials.score(least)
        if then.excess(percent) < now.excess(percent):
            return ("allowance", least) if then.stopped >= now.stopped else ("dear", ())
    return "unconfirmed", ()
