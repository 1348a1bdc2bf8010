"""Panels of more than one dashboard."""

from __future__ import annotations

from typing import Final

from dashboards.generator import queries as q
from dashboards.generator.panels import Built, Query, Steps, lines, rows
from spanfuse_processor.telemetry.catalogue import DELAY, INFO, LIVE, READY, UPTIME

LATE: Final[Steps] = ((None, "green"), (10, "orange"), (30, "red"))
"""Seconds to a decision; 10 are the objective of the alerts: an SDK exports a span up to 5 s after its end."""


def delays() -> Built:
    """How long it takes from the end of a call."""
    quantiles = [Query(q.quantile(p, DELAY, by=("stage",)), f"p{p * 100:g} {{{{stage}}}}") for p in (0.5, 0.95, 0.99)]
    about = "From the end of a call until it was counted, and until the decision that it led to was published."
    return lines("From call to decision", about, "s", *quantiles, steps=LATE)


def hosts(*, width: int = 24, height: int = 9) -> Built:
    """Each process."""
    by = ("job", "instance")
    columns = (
        Query(q.highest(INFO, by=(*by, "host", "mode", "version")), "Runs"),
        Query(q.highest(READY, by=by), "Ready"),
        Query(q.highest(LIVE, by=by), "Live"),
        Query(q.highest(UPTIME, by=by), "Up for"),
    )
    about = "Each process: what it is, in which mode, and whether it is ready and makes progress."
    labels = (*by, "host", "mode", "version")
    return rows("Hosts", about, *columns, labels=labels, units={"Up for": "s"}, width=width, height=height)
