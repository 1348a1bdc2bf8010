"""From a source to packed calls: export requests go the same way as live (decode → normalise), packed calls go as they are.

What reads spans depends on the configuration: its prices, its key, who is who. Configurations that read alike share one spool.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Final, Protocol

from spanfuse_processor.config import Config
from spanfuse_processor.errors import DecodeError
from spanfuse_processor.hosts.reading import normaliser_of, prices_of
from spanfuse_processor.hosts.replay.packed import is_packed
from spanfuse_processor.hosts.replay.sources import Item, Progress, Source, untold
from spanfuse_processor.hosts.replay.spool import Read, Spool, Writer
from spanfuse_processor.hosts.spans import decoded
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_schemas import Alias, Call
from spanfuse_schemas.guard_report import GuardReport

TOLD: Final = b'{"read":'
"""How a line begins that says what a recording of packed calls was made of, beside its batches."""


class Sink(Protocol):
    """Where calls go."""

    def batch(self, calls: Iterable[Call], aliases: Iterable[Alias] = (), reports: Iterable[GuardReport] = ()) -> None:
        """Take a batch that is decoded."""

    def packed(self, data: bytes) -> None:
        """Take a batch as it is on the wire.

        Raises:
            DecodeError: it is none.
        """


class Ingest:
    """What becomes of the items of a source under one configuration.

    Args:
        normaliser: makes calls of spans.
        sink: gets the calls.
        read: is told what was read.
    """

    def __init__(self, normaliser: Normaliser, sink: Sink, read: Read) -> None:
        self._normaliser, self._sink, self.read = normaliser, sink, read

    def take(self, item: Item) -> None:
        """Take an item; one that cannot be decoded is noted."""
        data, where = item.recorded.data, item.recorded.where
        if data is None:
            self.read.fail(where, "longer than any export request")
            return
        try:
            if item.recorded.encoding == "json" and data.startswith(TOLD):
                self.read.add(json.loads(data)["read"])
            elif is_packed(data):
                self._sink.packed(data.strip())
                self.read.requests += 1
            else:
                self._request(item)
        except (DecodeError, ValueError) as error:
            self.read.fail(where, str(error))

    def _request(self, item: Item) -> None:
        spans, records = decoded(item.recorded, logs=item.logs)
        self.read.requests += 1
        self.read.spans += len(spans)
        # A recording is replayed as if each request had arrived when its last span ended.
        received_ns = item.received_ns or max((span.end_ns for span in spans), default=0)
        logged_ns = item.received_ns or max((record.time_ns for record in records), default=0)
        for batch in self._normaliser.logs(records, logged_ns), self._normaliser.batch(spans, received_ns):
            if batch.calls or batch.aliases or batch.reports:
                self._sink.batch(batch.calls, batch.aliases, batch.reports)

    def end(self) -> None:
        """Nothing more will come."""
        batch = self._normaliser.end()
        if batch.calls:
            self._sink.batch(batch.calls)
        self.read.ingest.update(Counter(self._normaliser.counters))


def calls_of(source: Source, config: Config | None = None, progress: Progress = untold) -> Spool:
    """Read a source once, as a configuration says, into packed calls that can be replayed any number of times.

    Args:
        config: prices, the key of fingerprints, and who is who; packed calls do not depend on it. Default: the defaults.

    Returns:
        A spool, to be closed by who asks for it (it is a context manager).

    Raises:
        SpanfuseError: nothing can be read there; see `TopicRange.items`.
    """
    return spools_of(source, [config or Config()], progress)[0]


def spools_of(source: Source, configs: Sequence[Config], progress: Progress = untold) -> list[Spool]:
    """The same for several configurations in one reading: a spool for each, the same for those that read alike."""
    readers: dict[str, Normaliser] = {}
    for config in configs:
        if (key := _reads_as(config)) not in readers:
            readers[key] = normaliser_of(config, prices_of(config.pricing))
    spools = read_into(source, list(readers.values()), progress)
    by_key = dict(zip(readers, spools, strict=True))
    return [by_key[_reads_as(config)] for config in configs]


def read_into(source: Source, normalisers: Sequence[Normaliser], progress: Progress = untold) -> list[Spool]:
    """Read a source once, by each of several normalisers into a spool of its own."""
    read = Read()
    with ExitStack() as undo:
        spools = [undo.enter_context(Spool()) for _ in normalisers]
        with ExitStack() as writers:
            ingests = [
                Ingest(normaliser, writers.enter_context(Writer(spool)), spool.read)
                for normaliser, spool in zip(normalisers, spools, strict=True)
            ]
            for item in source.items(read, progress):
                for ingest in ingests:
                    ingest.take(item)
            for ingest in ingests:
                ingest.end()
                ingest.read.files = read.files
                ingest.read.failed(read.undecodable, read.problems)
        undo.pop_all()
    return spools


def _reads_as(config: Config) -> str:
    """What reading spans depends on."""
    overrides = [override.rules for override in config.policies]
    key = {
        "pricing": config.pricing.model_dump_json(),
        "identity": config.identity.model_dump_json(),
        "fingerprint_key": config.service.fingerprint_key.get_secret_value(),
        "near": [config.detectors.near.semantic, *(rules.get("near", {}).get("semantic") for rules in overrides)],
        "turns": [
            config.detectors.safety_drift.mode,
            *(rules.get("safety_drift", {}).get("mode") for rules in overrides),
        ],
    }
    return json.dumps(key, sort_keys=True)
