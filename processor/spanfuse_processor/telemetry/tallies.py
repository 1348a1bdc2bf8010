"""What is added up between two looks: counters and histograms with attributes, bounded, a dictionary each.

Hosts add once per batch, within their event loop. The instruments of OpenTelemetry's SDK take 6 to 7 µs for each measurement,
a fifth of what the core takes for a call; a batch of a hundred calls comes to a few additions here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from spanfuse_processor.telemetry.catalogue import MAX_SETS, OPEN, Instrument
from spanfuse_processor.telemetry.labels import MAX_CHARS, OTHER, label

Attributes = tuple[str, ...]
"""Values of the attributes of an instrument, in its order."""
MAX_KNOWN: Final = 1_000
"""Sets as they come whose place is remembered; of others it is looked up anew."""


class Tally:
    """A counter. The first `MAX_SETS` sets have a series of their own, so that each only ever grows.

    Args:
        instrument: what is counted.
    """

    def __init__(self, instrument: Instrument) -> None:
        self._instrument = instrument
        self.values: dict[Attributes, float] = {}
        self._known: dict[Attributes, Attributes] = {}

    def add(self, attributes: Attributes, amount: float = 1) -> None:
        """Count."""
        place = self._known.get(attributes)
        if place is None:
            place = self._placed(attributes)
        self.values[place] = self.values.get(place, 0) + amount

    def _placed(self, attributes: Attributes) -> Attributes:
        place = tuple(map(label, attributes))
        if place not in self.values and len(self.values) >= MAX_SETS:
            names = self._instrument.attributes
            place = tuple(OTHER if name in OPEN else value for name, value in zip(names, place, strict=True))
        if len(self._known) < MAX_KNOWN and all(len(value) <= MAX_CHARS for value in attributes):
            self._known[attributes] = place
        return place


class Series(NamedTuple):
    """A histogram under one set of attributes, as far as it has come."""

    counts: tuple[int, ...]
    """Per bucket; the last is that beyond all bounds."""
    total: float
    """Sum of all values."""


class Buckets:
    """A histogram. Its attributes have few values by themselves.

    Args:
        instrument: what is measured; its `bounds` are the upper bounds of buckets.
    """

    def __init__(self, instrument: Instrument) -> None:
        self._bounds = instrument.bounds
        self._counts: dict[Attributes, list[int]] = {}
        self._totals: dict[Attributes, float] = {}

    def record(self, attributes: Attributes, values: Iterable[float]) -> None:
        """Take in what was measured."""
        counts = self._counts.get(attributes)
        if counts is None:
            counts = self._counts[attributes] = [0] * (len(self._bounds) + 1)
            self._totals[attributes] = 0.0
        total, bounds = 0.0, self._bounds
        for value in values:
            counts[bisect_left(bounds, value)] += 1
            total += value
        self._totals[attributes] += total

    def series(self) -> dict[Attributes, Series]:
        """All of it, to be read elsewhere."""
        return {found: Series(tuple(counts), self._totals[found]) for found, counts in self._counts.items()}


class Tallies:
    """All that one host adds up; made where they are first asked for."""

    def __init__(self) -> None:
        self._counters: dict[str, Tally] = {}
        self._histograms: dict[str, Buckets] = {}

    def counter(self, instrument: Instrument) -> Tally:
        """The counter."""
        return self._counters.setdefault(instrument.name, Tally(instrument))

    def histogram(self, instrument: Instrument) -> Buckets:
        """The histogram."""
        return self._histograms.setdefault(instrument.name, Buckets(instrument))

    def counted(self) -> Mapping[str, Mapping[Attributes, float]]:
        """All counters, to be read elsewhere."""
        return {name: dict(tally.values) for name, tally in self._counters.items()}

    def measured(self) -> Mapping[str, Mapping[Attributes, Series]]:
        """All histograms, to be read elsewhere."""
        return {name: buckets.series() for name, buckets in self._histograms.items()}
