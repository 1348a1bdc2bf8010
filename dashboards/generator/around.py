"""Rows of Operations on what stands around the core: the API, the read model, proxies, processes."""

from __future__ import annotations

from dashboards.generator import queries as q
from dashboards.generator.panels import Built, Query, lines
from dashboards.generator.shared import hosts
from spanfuse_processor.telemetry.catalogue import (
    API_TIME,
    LOST_ROWS,
    PROXY_REQUESTS,
    PROXY_TIME,
    PROXY_UNDER_WAY,
    STREAMS,
    WAITING_ROWS,
)


def api() -> list[Built]:
    """The API and what people are shown."""
    took = q.quantile(0.95, API_TIME, by=("route",))
    requests = q.rate(f"{API_TIME.prometheus}_count", by=("status",))
    return [
        lines(
            "Requests to the API",
            "Requests per second, by class of the status.",
            "reqps",
            Query(requests, "{{status}}"),
            stacked=True,
        ),
        lines(
            "Answers of the API",
            "95 % come within this time, of the 10 slowest routes; of a stream, until it begins.",
            "s",
            Query(q.top(10, took), "{{route}}"),
        ),
        lines(
            "Clients of the event stream",
            "Guards, pages and commands that listen.",
            "short",
            Query(q.total(STREAMS, by=("instance",)), "{{instance}}"),
            stacked=True,
        ),
        lines(
            "Read model",
            "What Redis has not been told yet, and what people are not shown since it was away or refused it.",
            "short",
            Query(q.total(WAITING_ROWS), "waiting"),
            Query(q.each(LOST_ROWS, by=("kind",)), "dropped {{kind}}"),
        ),
    ]


def proxy() -> list[Built]:
    """`spanfuse proxy`."""
    took = [Query(q.quantile(p, PROXY_TIME, by=("provider",)), f"p{p * 100:g} {{{{provider}}}}") for p in (0.5, 0.95)]
    return [
        lines(
            "Requests to the proxy",
            "`requests` were let in; `blocked` by the Guard, `refused_…` by the proxy, not answered, given up by clients.",
            "reqps",
            Query(q.rate(PROXY_REQUESTS, by=("kind",)), "{{kind}}"),
            width=8,
        ),
        lines(
            "Answers through the proxy", "Until an answer begins; most of it is the provider's.", "s", *took, width=8
        ),
        lines(
            "Requests under way",
            "Requests that each proxy has not answered to the end.",
            "short",
            Query(q.total(PROXY_UNDER_WAY, by=("instance",)), "{{instance}}"),
            stacked=True,
            width=8,
        ),
    ]


def processes() -> list[Built]:
    """What each process needs."""

    def process(name: str, expression: str = "{}") -> Query:
        return Query(expression.format(q.series(f"process_{name}")), "{{instance}}")

    return [
        lines("CPU", "Cores that a process uses.", "short", process("cpu_seconds_total", "rate({}[$__rate_interval])")),
        lines("Memory", "Resident memory of a process.", "bytes", process("resident_memory_bytes")),
        lines("Open files", "Sockets included.", "short", process("open_fds")),
        hosts(width=12, height=8),
    ]
