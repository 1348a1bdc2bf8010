"""OpenTelemetry's data in the text format of Prometheus, or OpenMetrics where that is asked for.

The exporter of OpenTelemetry keeps the aggregation of each instrument a second time, and is a beta bound to one version of the
SDK; this reads what was gathered for OTLP as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final, NamedTuple

from opentelemetry.sdk.metrics.export import Histogram, HistogramDataPoint, Metric, MetricsData, NumberDataPoint
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from spanfuse_processor.telemetry.catalogue import BY_NAME, Instrument

_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_]+")


class Exposition(NamedTuple):
    """What a scrape is answered."""

    body: bytes
    content_type: str


def exposition(data: MetricsData, accept: str) -> Exposition:
    """What was gathered, and what is known of the process, as a scrape wants it.

    Args:
        accept: header of the scrape.
    """
    encode, content_type = choose_encoder(accept)
    registry = CollectorRegistry()
    registry.register(_Gathered(data))
    ProcessCollector(registry=registry)
    return Exposition(encode(registry), content_type)


class _Gathered(Collector):
    def __init__(self, data: MetricsData) -> None:
        self._data = data

    def collect(self) -> Iterable[Family]:
        for of_host in self._data.resource_metrics:
            yield _target({str(name): str(value) for name, value in of_host.resource.attributes.items()})
            for scope in of_host.scope_metrics:
                for metric in scope.metrics:
                    yield _family(BY_NAME[metric.name], metric)


def _target(attributes: Mapping[str, str]) -> Family:
    labels = {_UNFIT.sub("_", name): value for name, value in attributes.items()}
    family = GaugeMetricFamily("target_info", "always 1; the resource", labels=tuple(labels))
    family.add_metric(tuple(labels.values()), 1)
    return family


def _family(instrument: Instrument, metric: Metric) -> Family:
    name, about, labels = instrument.prometheus, instrument.about, instrument.attributes
    if isinstance(metric.data, Histogram):
        histogram = HistogramMetricFamily(name, about, labels=labels)
        for measured in metric.data.data_points:
            histogram.add_metric(_values(instrument, measured), [*_buckets(measured)], measured.sum)
        return histogram
    family: CounterMetricFamily | GaugeMetricFamily
    family = (CounterMetricFamily if instrument.kind == "counter" else GaugeMetricFamily)(name, about, labels=labels)
    for point in metric.data.data_points:
        if isinstance(point, NumberDataPoint):
            family.add_metric(_values(instrument, point), point.value)
    return family


def _values(instrument: Instrument, point: NumberDataPoint | HistogramDataPoint) -> list[str]:
    attributes = point.attributes or {}
    return [str(attributes.get(name, "")) for name in instrument.attributes]


def _buckets(point: HistogramDataPoint) -> Iterator[tuple[str, float]]:
    bounds = [*map(floatToGoString, point.explicit_bounds), "+Inf"]
    return zip(bounds, accumulate(point.bucket_counts), strict=True)
