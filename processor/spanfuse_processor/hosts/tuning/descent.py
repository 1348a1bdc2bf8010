"""The search for settings: one after the other is set to what is best, until none can be made better."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Final

from spanfuse_processor.hosts.tuning.grid import Axis, distance
from spanfuse_processor.hosts.tuning.settings import Changes, changed
from spanfuse_processor.hosts.tuning.trials import Trials

MAX_PASSES: Final = 4
"""Times that all settings are gone through. Two are usual: the second finds nothing."""


def probe(trials: Trials, axes: Sequence[Axis]) -> list[list[Changes]]:
    """Try every value of the grid on its own; gives what was tried, by axis."""
    options = [_options(trials, axis, ()) for axis in axes]
    trials.run(one for of_axis in options for one in of_axis)
    return [trials.run(of_axis) for of_axis in options]


def live(trials: Trials, axes: Sequence[Axis], probed: Sequence[Sequence[Changes]]) -> list[Axis]:
    """The settings that change what becomes of some labelled session; the others are not tried again."""
    now = trials[()].stops
    return [axis for axis, tried in zip(axes, probed, strict=True) if any(trials[one].stops != now for one in tried)]


class Goal:
    """What is best: no more wrong stops than allowed, then most runaways stopped, then the earliest, then nearest to what is
    configured.

    Args:
        percent: wrong stops that are allowed, percent of the good sessions.
        among: the sessions that count; none: all that have a label.
        few: whether fewer wrong stops go before earlier ones.
        least: whether a smaller change goes before earlier stops.
    """

    def __init__(
        self,
        trials: Trials,
        axes: Sequence[Axis],
        percent: float,
        among: Container[str] | None = None,
        *,
        few: bool = False,
        least: bool = False,
    ) -> None:
        self._trials, self._axes, self._percent, self._among = trials, axes, percent, among
        self._few, self._least = few, least
        self._known: dict[Changes, tuple[Any, ...]] = {}

    def __call__(self, changes: Changes) -> tuple[Any, ...]:
        """The smaller, the better."""
        if changes not in self._known:
            score = self._trials.score(changes, self._among)
            excess, missed, wasted = score.worth(self._percent)
            far = distance(self._axes, changes)
            then = (far, wasted) if self._least else (score.wrong, wasted, far) if self._few else (wasted, far)
            self._known[changes] = (excess, missed, *then, repr(changes))
        return self._known[changes]


def descend(trials: Trials, axes: Sequence[Axis], goal: Goal) -> Changes:
    """The best settings that are found from the configured ones on."""
    best: Changes = ()
    for _ in range(MAX_PASSES):
        before = best
        for place, axis in enumerate(axes):
            ahead = sum(len(later.values) for later in axes[place + 1 :])
            best = min([best, *trials.run(_options(trials, axis, best), ahead)], key=goal)
        if best == before:
            break
    return best


def _options(trials: Trials, axis: Axis, best: Changes) -> list[Changes]:
    return list(dict.fromkeys(changed(trials.policy, best, option) for option in axis.options()))
