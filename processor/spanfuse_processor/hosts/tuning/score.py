"""How good settings are: what they stop of runaways and of good sessions, when, and what that saves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from spanfuse_processor.hosts.replay.report import SessionReport
from spanfuse_processor.hosts.replay.totals import percentile
from spanfuse_processor.hosts.tuning.labels import Label
from spanfuse_processor.hosts.tuning.wilson import interval


@dataclass(frozen=True, slots=True)
class Stop:
    """What became of one session."""

    calls: int
    """Model calls."""
    blocked_at: int | None
    """First that would have been refused, from 0; none: it would have been let through."""
    saved_nano_usd: int
    """Money from that call on, nano-dollars."""
    seconds: float | None
    """Time from the beginning of what was found to its detection."""
    nano_usd: int | None = None
    """Money spent meanwhile, nano-dollars."""


def stop_of(one: SessionReport) -> Stop:
    """What became of a session that was replayed."""
    found = next((found for found in one.detections if found.action == "block"), None)
    spent = found.evidence.get("cost_nano_usd") if found is not None else None
    return Stop(one.calls, one.blocked_at, one.saved_nano_usd, one.time_to_detection_s, spent)


@dataclass(frozen=True, slots=True)
class Score:
    """What settings come to on labelled sessions."""

    runaways: int
    """Sessions labelled `runaway`."""
    stopped: int
    """Of those, stopped at their `onset` or later."""
    early: int
    """Of those, stopped before it, which is a wrong stop."""
    good: int
    """Sessions labelled `good`."""
    good_stopped: int
    """Of those, stopped."""
    either: int
    """Sessions labelled `either`."""
    either_stopped: int
    """Of those, stopped."""
    wasted_calls: int
    """Model calls of runaways that would have been let through although they should not: from `block_at` to the stop."""
    wasted_unguarded: int
    """The same if nothing were stopped."""
    saved_calls: int
    """Model calls of runaways from the stop on."""
    saved_nano_usd: int
    """Their money, nano-dollars."""
    lost_calls: int
    """Model calls of good sessions from the stop on: work that would have been lost."""
    calls_to_stop_p50: float | None
    """Model calls of a stopped runaway that were let through though they should not have been, median."""
    calls_to_stop_p95: float | None
    """The same, 95th percentile."""
    seconds_p50: float | None
    """Time from the beginning of what was found to its detection, stopped runaways, median, seconds."""
    seconds_p95: float | None
    """The same, 95th percentile."""
    nano_usd_p50: float | None
    """Money spent meanwhile, stopped runaways, median, nano-dollars."""
    nano_usd_p95: float | None
    """The same, 95th percentile."""

    @property
    def wrong(self) -> int:
        """Wrong stops: of good sessions, and of runaways while they were still good."""
        return self.good_stopped + self.early

    def excess(self, percent: float) -> int:
        """Wrong stops beyond so many percent of the good sessions."""
        return max(0, self.wrong - int(self.good * percent / 100))

    def worth(self, percent: float) -> tuple[int, int, int]:
        """The smaller, the better: wrong stops beyond what is allowed, runaways that go on, calls that they waste."""
        return self.excess(percent), self.runaways - self.stopped, self.wasted_calls

    def to_dict(self) -> dict[str, Any]:
        """As it is written, with the intervals at 95 % of both shares."""
        return asdict(self) | {
            "stopped_interval": rounded(interval(self.stopped, self.runaways)),
            "good_stopped_interval": rounded(interval(self.good_stopped, self.good)),
        }


def rounded(pair: tuple[float, float]) -> list[float]:
    """An interval as it is written."""
    return [round(one, 4) for one in pair]


def score(sessions: Iterable[tuple[Label, Stop]]) -> Score:
    """What settings come to on sessions, each with its label and what became of it."""
    seen = list(sessions)
    runaways = [one for one in seen if one[0].label == "runaway"]
    good = [stop for label, stop in seen if label.label == "good"]
    either = [stop for label, stop in seen if label.label == "either"]
    caught = [(label, stop) for label, stop in runaways if _at(stop) >= (label.onset or 0) and _is_stopped(stop)]
    late = [max(0, _at(stop) - label.wasted_from) for label, stop in caught]
    seconds = [stop.seconds for _, stop in caught if stop.seconds is not None]
    spent = [stop.nano_usd for _, stop in caught if stop.nano_usd is not None]
    return Score(
        runaways=len(runaways),
        stopped=len(caught),
        early=_stopped(stop for _, stop in runaways) - len(caught),
        good=len(good),
        good_stopped=_stopped(good),
        either=len(either),
        either_stopped=_stopped(either),
        wasted_calls=sum(max(0, _at(stop) - label.wasted_from) for label, stop in runaways),
        wasted_unguarded=sum(max(0, stop.calls - label.wasted_from) for label, stop in runaways),
        saved_calls=sum(stop.calls - _at(stop) for _, stop in caught),
        saved_nano_usd=sum(stop.saved_nano_usd for _, stop in caught),
        lost_calls=sum(stop.calls - _at(stop) for stop in good),
        calls_to_stop_p50=percentile(late, 50),
        calls_to_stop_p95=percentile(late, 95),
        seconds_p50=percentile(seconds, 50),
        seconds_p95=percentile(seconds, 95),
        nano_usd_p50=percentile(spent, 50),
        nano_usd_p95=percentile(spent, 95),
    )


def _is_stopped(stop: Stop) -> bool:
    return stop.blocked_at is not None


def _at(stop: Stop) -> int:
    """The call at which it ends: the first refused, or the one after its last."""
    return stop.calls if stop.blocked_at is None else stop.blocked_at


def _stopped(stops: Iterable[Stop]) -> int:
    return sum(map(_is_stopped, stops))
