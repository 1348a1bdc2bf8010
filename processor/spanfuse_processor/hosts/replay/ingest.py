"""From a source to packed calls: export requests go the same way as live (decode → normalise), packed calls go as they are.

What reads spans depends on the configuration: its prices, its key, who is who. Configurations that read alike share one spool.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from heapq import merge
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Final, Protocol, Self

from spanfuse_processor.config import Config
from spanfuse_processor.errors import DecodeError
from spanfuse_processor.hosts.replay.packed import is_packed, joined, unpack
from spanfuse_processor.hosts.replay.readers import Readers
from spanfuse_processor.hosts.replay.shards import Ingested, pieces
from spanfuse_processor.hosts.replay.sources import Item, Progress, Source, untold
from spanfuse_processor.hosts.replay.spool import Frame, Read, Spool, Writer, frames, ordinal_of, write

TOLD: Final = b'{"read":'
"""How a line begins that says what a recording of packed calls was made of, beside its batches."""


class Sink(Protocol):
    """Where calls go."""

    def packed(self, data: bytes) -> None:
        """Take a batch as it is on the wire.

        Raises:
            DecodeError: it is none.
        """


def calls_of(source: Source, config: Config | None = None, progress: Progress = untold, *, processes: int = 1) -> Spool:
    """Read a source once, as a configuration says, into packed calls that can be replayed any number of times.

    Args:
        config: prices, the key of fingerprints, and who is who; packed calls do not depend on it. Default: the defaults.
        processes: how many make calls of spans; what comes of it is the same.

    Returns:
        A spool, to be closed by who asks for it (it is a context manager).

    Raises:
        SpanfuseError: nothing can be read there; see `TopicRange.items`.
    """
    return spools_of(source, [config or Config()], progress, processes=processes)[0]


def spools_of(
    source: Source, configs: Sequence[Config], progress: Progress = untold, *, processes: int = 1
) -> list[Spool]:
    """The same for several configurations in one reading: a spool for each, the same for those that read alike."""
    readers = {_reads_as(config): config for config in configs}
    with ExitStack() as undo:
        spools = {key: undo.enter_context(Spool()) for key in readers}
        with ExitStack() as writers:
            sinks = [writers.enter_context(Writer(spool)) for spool in spools.values()]
            reads = read_into(source, list(readers.values()), sinks, progress, processes)
        for spool, read in zip(spools.values(), reads, strict=True):
            spool.read.add(read)
        undo.pop_all()
    return [spools[_reads_as(config)] for config in configs]


def read_into(
    source: Source, configs: Sequence[Config], sinks: Sequence[Sink], progress: Progress, processes: int
) -> list[Read]:
    """Read a source once, as each of several configurations says: into a sink of its own, in the order of the source."""
    of_source = Read()
    with _Ingest(configs, sinks, processes if source.is_large else 1) as ingest:
        for item in source.items(of_source, progress):
            ingest.take(item)
        reads = ingest.ended()
    for read in reads:
        read.files = of_source.files
        read.failed(of_source.undecodable, of_source.problems)
    return reads


class _Ingest:
    """Takes items. As long as they are packed, they go to the sinks at once; from the first export request on all waits in
    files, until it can be put in order."""

    def __init__(self, configs: Sequence[Config], sinks: Sequence[Sink], processes: int) -> None:
        self._configs, self._sinks, self._processes = configs, sinks, processes
        self._stack = ExitStack()
        self._reads = [Read() for _ in configs]
        self._failed = Ingested()
        self._ordinal = 0
        self._requests = 0
        self._folder: Path
        self._packed: IO[bytes] | None = None
        self._readers: Readers | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def take(self, item: Item) -> None:
        """Take an item; one that cannot be decoded is noted."""
        data, encoding, where = item.recorded
        self._ordinal += 1
        try:
            if data is None:
                raise DecodeError("longer than any export request")
            if encoding == "json" and data.startswith(TOLD):
                self._told(data)
                return
            if is_packed(data):
                self._take_packed(data.strip())
            else:
                self._request(item)
            self._requests += 1
        except DecodeError as error:
            self._failed.fail(self._ordinal, where, str(error))

    def ended(self) -> list[Read]:
        """Nothing more will come: what was read under each configuration."""
        ingested = [Ingested() for _ in self._configs]
        if self._readers is not None and self._packed is not None:
            ingested = self._readers.end()
            self._packed.close()
            for number, sink in enumerate(self._sinks):
                for data in self._in_order(number):
                    sink.packed(data)
        for read, found in zip(self._reads, ingested, strict=True):
            read.requests += self._requests - len(found.failed)
            read.spans += found.spans
            read.ingest.update(found.counters)
            for _, (where, why) in sorted({**self._failed.failed, **found.failed}.items()):
                read.fail(where, why)
        return self._reads

    def _told(self, data: bytes) -> None:
        try:
            read = Read.from_json(data)
        except (ValueError, TypeError, KeyError):
            raise DecodeError("no batch of calls, and nothing that is said of some") from None
        for one in self._reads:
            one.add(read)

    def _take_packed(self, data: bytes) -> None:
        if self._packed is not None:
            unpack(data)  # that it is none has to be told now
            write(self._packed, Frame(2 * self._ordinal, 0, data))
            return
        for sink in self._sinks:
            sink.packed(data)

    def _request(self, item: Item) -> None:
        if self._readers is None:
            self._folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="spanfuse-replay-")))
            self._packed = self._stack.enter_context((self._folder / "packed").open("wb"))
            self._readers = self._stack.enter_context(Readers(self._folder, self._configs, self._processes))
        for piece in pieces(self._ordinal, item):
            self._readers.take(piece)

    def _in_order(self, number: int) -> Iterator[bytes]:
        """The batches of one configuration."""
        files = [self._folder / "packed", *sorted(self._folder.glob(f"{number}-??"))]
        for _, together in groupby(merge(*map(frames, files), key=ordinal_of), key=ordinal_of):
            first, *others = [frame.data for frame in together]
            yield joined([first, *others]) if others else first


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
