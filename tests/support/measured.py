"""A telemetry without a host, and what a scrape of one says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from spanfuse_processor.config.telemetry import Telemetry as Settings
from spanfuse_processor.telemetry.catalogue import HostKind
from spanfuse_processor.telemetry.meters import Observed
from spanfuse_processor.telemetry.running import Telemetry

Samples = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]
"""Name and labels, in order → value."""


class Host:
    """See `telemetry.endpoint.Health`; and what it observes."""

    def __init__(self) -> None:
        self.ready = self.live = True
        self.mode = "observe"
        self.observed: Observed = {}
        self.failure: Exception | None = None

    async def observe(self) -> Observed:
        """What is set."""
        if self.failure is not None:
            raise self.failure
        return self.observed


@asynccontextmanager
async def measuring(
    host: Host | None = None, kind: HostKind = "embedded", default_endpoint: str = "", **settings: Any
) -> AsyncIterator[Telemetry]:
    """A telemetry, from its start to its end.

    Args:
        settings: section `service.telemetry`.
    """
    host = host or Host()
    made = Telemetry(Settings.model_validate(settings), kind, host, host.observe, default_endpoint=default_endpoint)
    try:
        await made.start()
        yield made
    finally:
        await made.stop()


def samples(text: str) -> Samples:
    """All samples of an exposition, by the parser of Prometheus' client."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float:
    """The sum of the samples of a name with these labels, whatever others they have.

    Raises:
        KeyError: there is none.
    """
    values = [n for (of, own), n in found.items() if of == name and set(labels.items()) <= set(own)]
    if not values:
        raise KeyError(f"{name}{labels}")
    return sum(values)


async def scraped(telemetry: Telemetry) -> Samples:
    """What it says now."""
    return samples((await telemetry.scrape()).body.decode())
