"""PromQL of the dashboards: instruments by the names that Prometheus gives them, at the places chosen above the panels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spanfuse_processor.telemetry.catalogue import INFO, Instrument

Metric = Instrument | str
"""An instrument of ours; by its name what Prometheus' client library tells of the process."""

AGENT: Final = 'agent=~"$agent"'
TEAM: Final = 'team=~"$team"'
MODEL: Final = 'model=~"$model"'
RULE: Final = 'rule=~"$rule"'
"""What else is chosen above the panels, where a metric has the label."""

_PLACE: Final = ('job=~"$job"', 'instance=~"$instance"')


def series(metric: Metric, *matchers: str) -> str:
    """The series of a metric that match, at the places chosen."""
    name = metric if isinstance(metric, str) else metric.prometheus
    return f"{name}{{{', '.join((*matchers, *_PLACE))}}}"


def total(metric: Metric, *matchers: str, by: Sequence[str] = ()) -> str:
    """Sum of a gauge."""
    return f"sum{_by(by)} ({series(metric, *matchers)})"


def highest(metric: Metric, *matchers: str, by: Sequence[str] = ()) -> str:
    """Maximum of a gauge."""
    return f"max{_by(by)} ({series(metric, *matchers)})"


def once(metric: Instrument, *matchers: str, by: Sequence[str] = ()) -> str:
    """Sum of a gauge that all instances of a job tell alike, as those of an API do."""
    alike = _by(("job", *metric.attributes))
    return f"sum{_by(by)} (max{alike} ({series(metric, *matchers)}))"


def lowest(metric: Metric, *matchers: str, by: Sequence[str] = ()) -> str:
    """Minimum of a gauge."""
    return f"min{_by(by)} ({series(metric, *matchers)})"


def rate(metric: Metric, *matchers: str, by: Sequence[str] = ()) -> str:
    """What a counter gains, per second."""
    return f"sum{_by(by)} (rate({series(metric, *matchers)}[$__rate_interval]))"


def per_hour(metric: Metric, *matchers: str, by: Sequence[str] = ()) -> str:
    """What a counter gains, per hour."""
    return f"{rate(metric, *matchers, by=by)} * 3600"


def gained(metric: Metric, *matchers: str, by: Sequence[str] = ()) -> str:
    """What a counter gains in the time shown, the first value of a series that began in it included.

    A counter of rare events has a series from the first event on, with the value 1; `increase` alone does not see that one.
    """
    of, window = series(metric, *matchers), "$__range"
    grown = f"increase({of}[{window}])"
    return f"sum{_by(by)} ({grown} + (min_over_time({of}[{window}]) unless {of} offset {window} or {grown} * 0))"


def each(metric: Metric, *matchers: str, by: Sequence[str] = (), step: str = "$__interval") -> str:
    """How many events a counter gains from point to point: each is in one of them, and they are whole numbers.

    Where a series began or fell back to 0 between two points, all of it counts, if Prometheus knew its host before: else
    every gap of Prometheus itself would look like all events at once.
    """
    of = series(metric, *matchers)
    known = f"on (job, instance) {series(INFO)} offset {step}"
    return f"sum{_by(by)} ({of} - {of} offset {step} >= 0 or {of} and {known})"


def quantile(q: float, histogram: Instrument, *matchers: str, by: Sequence[str] = ()) -> str:
    """A quantile of a histogram."""
    return f"histogram_quantile({q:g}, {rate(f'{histogram.prometheus}_bucket', *matchers, by=('le', *by))})"


def share(part: str, whole: str) -> str:
    """A part of a whole; no value where the whole is 0."""
    return f"({part}) / (({whole}) > 0)"


def top(count: int, expression: str) -> str:
    """The largest only: a legend that can be read."""
    return f"topk({count}, {expression})"


def _by(labels: Sequence[str]) -> str:
    return f" by ({', '.join(labels)})" if labels else ""
