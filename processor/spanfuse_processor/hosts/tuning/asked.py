"""What a study is asked for, and how it is done: read once, replayed many times, only what is labelled where that suffices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from spanfuse_processor.config import Config
from spanfuse_processor.hosts.replay import Progress, Report, Source, Spool, calls_of, replay_calls
from spanfuse_processor.hosts.replay.scopes import may_refuse
from spanfuse_processor.hosts.tuning.grid import Axis, axes
from spanfuse_processor.hosts.tuning.labels import Labels, read_labels
from spanfuse_processor.hosts.tuning.markers import Marker, marked, profiled
from spanfuse_processor.hosts.tuning.spooled import calls_in, narrowed
from spanfuse_processor.hosts.tuning.study import Study, study
from spanfuse_processor.hosts.tuning.trials import Run
from spanfuse_schemas import Policy

OF_SCOPES: Final = ("agent.breaker", "fanout")
"""Rules for which what becomes of a session depends on others."""


@dataclass(frozen=True)
class Asked:
    """What is asked for."""

    config: Config
    labels: Labels
    """What people say."""
    markers: Sequence[Marker]
    """What marks sessions without a label as good."""
    axes: Sequence[Axis]
    """What is swept."""
    percent: float
    """Good sessions that may be stopped, percent."""
    processes: int

    @classmethod
    def read(
        cls, config: Config, labels: Iterable[Path], markers: Iterable[str], swept: Sequence[str], percent: float,
        processes: int,
    ) -> Self:  # fmt: skip
        """From files and texts as they are given.

        Raises:
            ConfigError: with every problem.
        """
        return cls(
            config=config,
            labels=read_labels(labels),
            markers=[Marker.read(one) for one in markers],
            axes=axes(config.policy(), swept),
            percent=percent,
            processes=processes,
        )

    @property
    def judged(self) -> bool:
        """Whether something is said of sessions."""
        return bool(self.labels or self.markers)

    def spooled(self, source: Source, progress: Progress) -> Spool:
        """The calls of a recording, read so that whatever is swept can see what it needs; to be closed by who asks for it."""
        needs = {
            "safety_drift": {"mode": "shadow"} if any(axis.rule == "safety_drift" for axis in self.axes) else {},
            "near": {"semantic": True}
            if any(axis.setting == "semantic" and True in axis.values for axis in self.axes)
            else {},
        }
        rules = self.config.detectors
        update = {name: getattr(rules, name).model_copy(update=need) for name, need in needs.items()}
        return calls_of(source, self.config.model_copy(update={"detectors": rules.model_copy(update=update)}), progress)

    def studied(self, spool: Spool, progress: Progress) -> Study:
        """The study of a recording."""
        labels = self.labels
        if self.markers:
            labels = marked(profiled(calls_in(spool)), self.markers) | labels
        with ExitStack() as stack:
            few = self._narrowed(spool, labels)
            return study(
                self.config.policy(),
                self.axes,
                labels,
                self._replays(spool, progress),
                self._replays(stack.enter_context(few), progress) if few is not None else None,
                percent=self.percent,
                tell=lambda done, of: progress("trying settings", done, of),
            )

    def _narrowed(self, spool: Spool, labels: Labels) -> Spool | None:
        """The labelled sessions alone, where what becomes of them does not depend on others; none: all have to be replayed."""
        policy = self.config.policy()
        alone = not may_refuse(policy) and all(axis.rule not in OF_SCOPES for axis in self.axes)
        return narrowed(spool, labels) if labels and alone else None

    def _replays(self, spool: Spool, progress: Progress) -> Run:
        def run(policies: Sequence[Policy]) -> list[Report]:
            return replay_calls(spool, policies, processes=self.processes, progress=progress)

        return run
