"""Everything that a host measures, as OpenTelemetry's data: its SDK observes counts and gauges at each look.

Histograms are added up by the host (`tallies.Buckets`), and handed out beside what the SDK gives, as a `MetricProducer` of the
specification does, which the SDK for Python does not have.

A look takes what there is within the event loop, at once, and makes data points of it on a thread: the SDK takes some 15 µs
for each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    InMemoryMetricReader,
    Metric,
    MetricsData,
)
from opentelemetry.sdk.resources import Resource

from spanfuse_processor.telemetry.catalogue import BY_NAME, CATALOGUE, HostKind, Instrument
from spanfuse_processor.telemetry.counters import SELF_SCOPE
from spanfuse_processor.telemetry.labels import label
from spanfuse_processor.telemetry.tallies import Attributes, Series, Tallies

Points = Mapping[Attributes, float]
"""Values of the attributes of an instrument → what is observed."""
Observed = Mapping[Instrument, Points]
"""What a host observes at a look."""
Observe = Callable[[], Awaitable[Observed]]


class Meters:
    """The metrics of one host. It is registered nowhere: any number may live in a process.

    Args:
        host: what runs.
        resource: what the metrics are of.
        tallies: what the host adds up.
        observe: what it can say at a look.
    """

    def __init__(self, host: HostKind, resource: Resource, tallies: Tallies, observe: Observe) -> None:
        self._tallies, self._observe = tallies, observe
        self._reader = InMemoryMetricReader()
        self._provider = MeterProvider(metric_readers=[self._reader], resource=resource, shutdown_on_exit=False)
        self._looking = asyncio.Lock()
        self._seen: dict[str, Points] = {}
        self._started_ns = time.time_ns()
        self._zeros: dict[str, Points] = {
            i.name: {(v,): 0.0 for v in i.values} for i in CATALOGUE if host in i.hosts and i.values
        }
        meter = self._provider.get_meter(SELF_SCOPE)
        for instrument in CATALOGUE:
            if host in instrument.hosts and instrument.kind != "histogram":
                make = (
                    meter.create_observable_counter if instrument.kind == "counter" else meter.create_observable_gauge
                )
                make(instrument.name, [partial(self._observations, instrument)], instrument.unit, instrument.about)

    async def look(self) -> MetricsData:
        """All that is measured, now."""
        async with self._looking:
            found = {instrument.name: points for instrument, points in (await self._observe()).items()}
            self._seen = {**self._zeros}
            for name, points in (*self._tallies.counted().items(), *found.items()):
                self._seen[name] = {**self._zeros.get(name, {}), **points}
            return await asyncio.to_thread(self._gathered, self._tallies.measured())

    def close(self) -> None:
        """It is not looked at any more."""
        self._provider.shutdown()

    def _observations(self, instrument: Instrument, _: CallbackOptions) -> Iterable[Observation]:
        names = instrument.attributes
        for values, value in self._seen.get(instrument.name, {}).items():
            yield Observation(float(value), dict(zip(names, map(label, values), strict=True)))

    def _gathered(self, measured: Mapping[str, Mapping[Attributes, Series]]) -> MetricsData:
        data = self._reader.get_metrics_data() or MetricsData(resource_metrics=[])
        if not data.resource_metrics:  # the SDK is switched off (`OTEL_SDK_DISABLED`)
            return data
        now_ns = time.time_ns()
        more = [self._histogram(BY_NAME[name], series, now_ns) for name, series in measured.items() if series]
        of_host = data.resource_metrics[0]
        scope = of_host.scope_metrics[0]
        return MetricsData([replace(of_host, scope_metrics=[replace(scope, metrics=[*scope.metrics, *more])])])

    def _histogram(self, instrument: Instrument, series: Mapping[Attributes, Series], now_ns: int) -> Metric:
        points = [self._point(instrument, values, found, now_ns) for values, found in series.items()]
        data = Histogram(data_points=points, aggregation_temporality=AggregationTemporality.CUMULATIVE)
        return Metric(instrument.name, instrument.about, instrument.unit, data)

    def _point(self, instrument: Instrument, values: Attributes, found: Series, now_ns: int) -> HistogramDataPoint:
        limits: dict[str, Any] = {"min": None, "max": None}  # not known, and optional in OTLP
        return HistogramDataPoint(
            attributes=dict(zip(instrument.attributes, values, strict=True)),
            start_time_unix_nano=self._started_ns,
            time_unix_nano=now_ns,
            count=sum(found.counts),
            sum=found.total,
            bucket_counts=found.counts,
            explicit_bounds=instrument.bounds,
            **limits,
        )
