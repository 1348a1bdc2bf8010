"""Who is told of an alert."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from spanfuse_processor.config.alerts import Alerts, Route
from spanfuse_processor.exporters.alerts.model import SEVERITIES, Alert


def receivers_of(alert: Alert, config: Alerts) -> tuple[str, ...]:
    """Names of receivers, each once."""
    everybody = tuple(config.receivers.named())
    routes = config.routes or (Route(severity="warning", receivers=everybody),)
    return tuple(dict.fromkeys(_chosen(alert, routes)))


def _chosen(alert: Alert, routes: Iterable[Route]) -> Iterable[str]:
    for route in routes:
        if _holds(route, alert):
            yield from route.receivers
            if not route.go_on:
                return


def _holds(route: Route, alert: Alert) -> bool:
    return (
        SEVERITIES.index(alert.severity) >= SEVERITIES.index(route.severity)
        and fnmatchcase(alert.rule, route.rule)
        and fnmatchcase(alert.agent, route.agent)
        and fnmatchcase(alert.team, route.team)
    )
