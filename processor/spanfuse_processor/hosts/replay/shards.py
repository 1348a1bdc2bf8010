"""Export requests to calls, by trace: what a trace has said of itself is remembered in one place, whichever process that is.

A request of several traces is cut, as receivers of a fleet do. Shards have normalisers of their own, so that what comes of a
source does not depend on how many processes have read it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO, Final, NamedTuple

from spanfuse_processor.config import Config
from spanfuse_processor.errors import DecodeError
from spanfuse_processor.hosts.reading import normaliser_of, prices_of
from spanfuse_processor.hosts.recordings import MAX_PROBLEMS, MAX_REQUEST_BYTES, Recorded
from spanfuse_processor.hosts.replay.sources import Item
from spanfuse_processor.hosts.replay.spool import Frame, write
from spanfuse_processor.hosts.spans import LOGS_KEYS, SPANS_KEYS, decoded
from spanfuse_processor.otlp.normalise import Normaliser
from spanfuse_processor.otlp.split import Parts, split_logs, split_spans
from spanfuse_schemas import CallBatch
from spanfuse_schemas.topics import partition_of

SHARDS: Final = 16
_UNTOLD: Final = ("", "")
END: Final = 2**62
"""Ordinal of what comes when nothing more will."""
_TRACE: Final = re.compile(rb'"trace_?[iI]d"\s*:\s*"([^"]*)"')
_HEX: Final = re.compile(rb"[0-9a-fA-F]{32}")


class Piece(NamedTuple):
    """What a request holds of one shard."""

    ordinal: int
    shard: int
    item: Item


@dataclass(slots=True)
class Ingested:
    """What was read under one configuration."""

    spans: int = 0
    counters: Counter[str] = field(default_factory=Counter)
    failed: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Requests that cannot be decoded, by ordinal: of the first, where they stand and why."""

    def fail(self, ordinal: int, where: str, why: str) -> None:
        """Note one that cannot."""
        self.failed[ordinal] = (where, why) if len(self.failed) < MAX_PROBLEMS else _UNTOLD

    def add(self, other: Ingested) -> None:
        """Take in what another process has read."""
        self.spans += other.spans
        self.counters.update(other.counters)
        self.failed |= other.failed


@lru_cache(maxsize=65_536)
def _shard_of(trace: str) -> int:
    return partition_of(trace.lower(), SHARDS)


def pieces(ordinal: int, item: Item) -> Iterable[Piece]:
    """A request by shards.

    Raises:
        DecodeError: it cannot be used.
    """
    data, encoding, where = item.recorded
    data = data or b""
    if encoding == "json":
        traces = set(_TRACE.findall(data))
        if all(map(_HEX.fullmatch, traces)) and len(shards := {_shard_of(trace.decode()) for trace in traces}) < 2:
            return [Piece(ordinal, shards.pop() if shards else 0, item)]
    found = []
    for split, logs in _ways(item, data):
        for trace, part in split(data, encoding, _shard_of, MAX_REQUEST_BYTES).found:
            found.append(
                Piece(ordinal, _shard_of(trace), Item(Recorded(part, encoding, where), logs, item.received_ns))
            )
    return found


def _ways(item: Item, data: bytes) -> list[tuple[Callable[..., Parts], bool]]:
    """How it is cut: JSON says what it holds, and that may be both."""
    if item.recorded.encoding == "protobuf":
        return [(split_logs, True) if item.logs else (split_spans, False)]
    has_logs, has_spans = (any(key in data for key in keys) for keys in (LOGS_KEYS, SPANS_KEYS))
    return [*([(split_logs, True)] if has_logs else []), *([(split_spans, False)] if has_spans or not has_logs else [])]


class Shards:
    """Some shards, under each of several configurations. Use it as a context manager.

    Args:
        folder: gets a file of frames for each configuration and shard.
    """

    def __init__(self, folder: Path, configs: Sequence[Config]) -> None:
        self._folder, self._configs = folder, configs
        self._prices = [prices_of(config.pricing) for config in configs]
        self._read = [Ingested() for _ in configs]
        self._files = ExitStack()
        self._known: dict[int, list[tuple[Normaliser, IO[bytes]]]] = {}

    def __enter__(self) -> Shards:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def take(self, piece: Piece) -> None:
        """Take what a request holds of one of them; what cannot be decoded is noted."""
        item = piece.item
        for (normaliser, file), read in zip(self._of(piece.shard), self._read, strict=True):
            try:
                spans, records = decoded(item.recorded, logs=item.logs)
            except DecodeError as error:
                read.fail(piece.ordinal, item.recorded.where, str(error))
                continue
            read.spans += len(spans)
            # A recording is replayed as if each request had arrived when its last span ended.
            received_ns = item.received_ns or max((span.end_ns for span in spans), default=0)
            logged_ns = item.received_ns or max((record.time_ns for record in records), default=0)
            _put(file, 2 * piece.ordinal, normaliser.logs(records, logged_ns))
            _put(file, 2 * piece.ordinal + 1, normaliser.batch(spans, received_ns))

    def end(self) -> list[Ingested]:
        """Nothing more will come: what was read under each configuration."""
        for pairs in self._known.values():
            for (normaliser, file), read in zip(pairs, self._read, strict=True):
                _put(file, 2 * END, normaliser.end())
                read.counters.update(normaliser.counters)
        self._files.close()
        return self._read

    def _of(self, shard: int) -> list[tuple[Normaliser, IO[bytes]]]:
        if shard not in self._known:
            self._known[shard] = [
                (
                    normaliser_of(config, prices),
                    self._files.enter_context((self._folder / f"{n}-{shard:02}").open("wb")),
                )
                for n, (config, prices) in enumerate(zip(self._configs, self._prices, strict=True))
            ]
        return self._known[shard]


def _put(file: IO[bytes], ordinal: int, batch: CallBatch) -> None:
    if batch.calls or batch.aliases or batch.reports:
        write(file, Frame(ordinal, len(batch.calls), batch.to_json()))
