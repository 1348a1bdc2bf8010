"""Whether what was found holds for sessions that did not choose it, and how much so few sessions can say at all."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from spanfuse_processor.hosts.tuning.descent import Goal, descend
from spanfuse_processor.hosts.tuning.grid import Axis
from spanfuse_processor.hosts.tuning.labels import Label
from spanfuse_processor.hosts.tuning.score import Score, Stop, score
from spanfuse_processor.hosts.tuning.settings import Changes, told
from spanfuse_processor.hosts.tuning.trials import Trials
from spanfuse_processor.hosts.tuning.wilson import chance, interval, needed

FOLDS: Final = 5
"""Parts of the sessions, each of which is judged by settings that the others have chosen."""
MIN_RUNAWAYS: Final = 20
"""Of fewer, one session is more than five percent."""
CLAIM: Final = 0.05
"""Share of good sessions stopped that a sample should at least be able to rule out."""


@dataclass(frozen=True)
class HeldOut:
    """Settings chosen without the sessions that judge them."""

    chosen: tuple[Changes, ...]
    """What was chosen without each part."""
    score: Score
    """What that comes to on all parts together."""
    now: Score
    """What the configured settings come to on the same sessions."""
    better: int
    """Sessions that go better than with the configured settings, in what decides: a wrong stop less, else a runaway stopped,
    else one stopped earlier."""
    worse: int
    """Sessions that go worse in that."""

    def gains(self, percent: float) -> bool:
        """Whether they are better than what is configured."""
        return self.score.worth(percent) < self.now.worth(percent)

    def to_dict(self, percent: float) -> dict[str, Any]:
        """As it is written."""
        return {
            "folds": FOLDS,
            "chosen": [told(changes) for changes in self.chosen],
            "score": self.score.to_dict(),
            "now": self.now.to_dict(),
            "better": self.better,
            "worse": self.worse,
            "chance": round(chance(self.better, self.worse), 4),
            "gains": self.gains(percent),
        }


def fold(session: str) -> int:
    """The part that a session belongs to, by a hash of its id: the same one in every run and recording."""
    return hashlib.blake2b(session.encode("utf-8", "surrogatepass"), digest_size=4).digest()[0] % FOLDS


def held_out(trials: Trials, axes: Sequence[Axis], percent: float) -> HeldOut:
    """Choose settings by all parts but one, judge them by that one, for each."""
    folds = [fold(label.session) for label in trials.labels]
    chosen = []
    for part in range(FOLDS):
        others = {label.session for label, at in zip(trials.labels, folds, strict=True) if at != part}
        chosen.append(descend(trials, axes, Goal(trials, axes, percent, others)))
    now = trials[()].stops
    then = [trials[chosen[at]].stops[place] for place, at in enumerate(folds)]
    old, new = (score(zip(trials.labels, stops, strict=True)) for stops in (now, then))
    what = next(
        (n for n, pair in enumerate(zip(old.worth(percent), new.worth(percent), strict=True)) if len({*pair}) > 1), 0
    )
    gains = [
        _bad(label, before)[what] - _bad(label, after)[what]
        for label, before, after in zip(trials.labels, now, then, strict=True)
    ]
    return HeldOut(
        chosen=tuple(chosen),
        score=new,
        now=old,
        better=sum(gain > 0 for gain in gains),
        worse=sum(gain < 0 for gain in gains),
    )


def _bad(label: Label, stop: Stop) -> tuple[int, int, int]:
    """What is bad about what became of a session, as `Score.worth` adds it up: a wrong stop, none, calls wasted."""
    if label.label == "either":
        return 0, 0, 0
    at = stop.calls if stop.blocked_at is None else stop.blocked_at
    stopped = stop.blocked_at is not None
    early = at < (label.onset or 0)
    if label.label == "good":
        return int(stopped), 0, 0
    return int(stopped and early), int(not stopped or early), max(0, at - label.wasted_from)


def doubts(score: Score, percent: float, held: HeldOut | None) -> list[str]:
    """Why the figures may mean less than they seem to, one sentence each."""
    found = []
    if not score.good:
        found.append("No good session is labelled: nothing is known of wrong stops.")
    elif (most := interval(score.good_stopped, score.good)[1]) > max(CLAIM, percent / 100):
        found.append(
            f"{score.good_stopped} of {score.good} good sessions stopped does not rule out that {most:.1%} of all would "
            f"be (95 % confidence). To rule out more than {max(CLAIM, percent / 100):.0%} takes "
            f"{needed(max(CLAIM, percent / 100))} good sessions of which none is stopped."
        )
    if not score.runaways:
        found.append("No runaway is labelled: nothing is known of what should be stopped.")
    elif score.runaways < MIN_RUNAWAYS:
        least = interval(score.stopped, score.runaways)[0]
        found.append(
            f"{score.stopped} of {score.runaways} runaways stopped may as well be {least:.0%} of all. "
            f"{MIN_RUNAWAYS} runaways are the least to tune by."
        )
    if held is not None and held.gains(percent) and chance(held.better, held.worse) > 0.05:
        found.append(
            f"On sessions that did not choose the settings, {held.better} go better than now and {held.worse} worse: "
            "chance alone does as much more often than once in twenty times."
        )
    return found
