"""What is counted, for Prometheus. Labels are rules, models' names are none: there are as many series as there are counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.responses import Response

from spanfuse_processor.api.asked import READER, Host
from spanfuse_processor.telemetry import COUNTERS, FAMILIES

router: Final = APIRouter(tags=["health"], dependencies=[READER])

PREFIX: Final = "spanfuse_"
MAX_LABELS: Final = 200
"""Series of a family; what is beyond is summed under `other`."""
GAUGES: Final[Mapping[str, str]] = {
    "uptime_s": "time since the start, seconds",
    "policy_epoch": "epoch of the policy in force",
    "sessions": "sessions that are known",
    "live_sessions": "sessions in memory",
    "open_breakers": "breakers that are open",
    "half_open_breakers": "breakers whose cooldown is over",
    "streams": "clients that listen to events",
}
"""Field of the status → what it is."""
LABELS: Final[Mapping[str, str]] = {"detections": "rule", "guards": "kind", "ingest": "kind"}
"""Family of counters → name of its label."""


@router.get(
    "/metrics", responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}, response_class=Response
)
async def metrics(request: Request, host: Host) -> Response:
    """What is counted, in the text format of Prometheus, or OpenMetrics where that is asked for."""
    encode, kind = choose_encoder(request.headers.get("accept", ""))
    registry = CollectorRegistry()
    registry.register(_Status(await host.status(), ready=host.ready, live=host.live))
    ProcessCollector(registry=registry)
    return Response(encode(registry), media_type=kind)


class _Status(Collector):
    """The status as metrics.

    Args:
        status: as `/v1/status` tells it.
    """

    def __init__(self, status: Mapping[str, Any], **flags: bool) -> None:
        self._status = status
        self._flags = flags

    def collect(self) -> Iterable[Metric]:
        yield _info(self._status)
        for name, value in self._flags.items():
            yield GaugeMetricFamily(PREFIX + name, f"whether the host is {name}", value=float(value))
        for name, about in GAUGES.items():
            if isinstance(self._status.get(name), int | float):
                yield GaugeMetricFamily(PREFIX + name, about, value=self._status[name])
        yield from _of_workers(self._status)
        counts = self._status.get("counts", {})
        for name, about in COUNTERS.items():
            if name in counts:
                yield CounterMetricFamily(PREFIX + name, about, value=counts[name])
        yield from _families(counts)


def _info(status: Mapping[str, Any]) -> Metric:
    info = GaugeMetricFamily(PREFIX + "info", "always 1; what runs", labels=("version", "host", "mode"))
    info.add_metric([str(status.get(name, "")) for name in ("version", "host", "mode")], 1)
    return info


def _of_workers(status: Mapping[str, Any]) -> Iterator[Metric]:
    """Of a stream: whether its workers keep up. What is not known is left out, rather than told as nothing."""
    if "workers" in status:
        ready = sum(bool(worker.get("ready")) for worker in status["workers"])
        yield GaugeMetricFamily(PREFIX + "workers", "workers that are ready", value=ready)
    if status.get("lag") is not None:
        lag = GaugeMetricFamily(PREFIX + "lag_messages", "messages that workers have still to read", labels=("topic",))
        for topic, messages in _bounded(status["lag"]):
            lag.add_metric([topic], messages)
        yield lag


def _families(counts: Mapping[str, Any]) -> Iterator[Metric]:
    for name, about in FAMILIES.items():
        family = CounterMetricFamily(PREFIX + name, about, labels=(LABELS[name],))
        for label, value in _bounded(counts.get(name, {})):
            family.add_metric([label], value)
        yield family


def _bounded(values: Mapping[str, int]) -> list[tuple[str, int]]:
    ranked = sorted(values.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(value for _, value in ranked[MAX_LABELS:])
    return ranked[:MAX_LABELS] + ([("other", rest)] if rest else [])
