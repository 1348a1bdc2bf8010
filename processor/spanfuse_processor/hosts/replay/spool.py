"""The calls of a source, without content, in files of a folder of their own: made once, replayed as often as is asked.

Each lane is one file, in the order in which its batches came, and what belongs together is in one lane: a session, and a trace
of which it turned out that it belongs to that session.
"""

from __future__ import annotations

import json
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from heapq import merge
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Final, NamedTuple, Self

from spanfuse_processor.errors import DecodeError
from spanfuse_processor.hosts.recordings import Problems
from spanfuse_processor.hosts.replay.families import Families
from spanfuse_processor.hosts.replay.packed import LANES, Home, count, cut, joined, lane_of, pack, unpack

_HEAD: Final = struct.Struct("<QII")
_BUFFER: Final = 256 * 1024


class Frame(NamedTuple):
    """What one batch holds of one lane."""

    ordinal: int
    """Place of the batch among all."""
    size: int
    """Calls of the whole batch."""
    data: bytes
    """A `CallBatch`."""


@dataclass(slots=True)
class Read(Problems):
    """What was read, and what could not be."""

    requests: int = 0
    """Export requests, or batches of packed calls."""
    spans: int = 0
    ingest: Counter[str] = field(default_factory=Counter)
    """What the normaliser counted."""
    files: int = 0
    """Files that were read to their end."""

    def add(self, other: Read) -> None:
        """Take in what was read elsewhere."""
        self.requests += other.requests
        self.spans += other.spans
        self.ingest.update(other.ingest)
        self.files += other.files
        self.failed(other.undecodable, other.problems)

    def to_json(self) -> bytes:
        """As the line of a recording that tells of it."""
        return json.dumps({"read": {one.name: getattr(self, one.name) for one in fields(self)}}).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """The inverse of `to_json`.

        Raises:
            ValueError, TypeError, KeyError: it is none.
        """
        read = cls(**json.loads(data)["read"])
        read.ingest = Counter(read.ingest)
        return read


class Spool:
    """Packed calls by lanes. Use it as a context manager: its folder goes away at the end."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="spanfuse-replay-")
        self.folder = Path(self._folder.name)
        self.read = Read()
        self.calls = 0
        """Calls in all lanes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove all."""
        self._folder.cleanup()

    @property
    def lanes(self) -> list[Path]:
        """The lanes that hold something, the largest first, so that no process begins with a large one in the end."""
        found = [path for path in self.folder.glob("lane-??") if path.stat().st_size]
        return sorted(found, key=lambda path: (-path.stat().st_size, path.name))

    @property
    def size(self) -> int:
        """Bytes in all lanes."""
        return sum(path.stat().st_size for path in self.lanes)


class Writer:
    """Fills a spool. Use it as a context manager: at its end the spool is ready.

    Args:
        spool: an empty one.
    """

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self._lanes = _open(spool.folder, "lane")
        self._ordinal = 0
        self._families = Families()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for file in self._lanes:
            file.close()
        if kind is None and (homes := self._families.homes()):
            _bring_home(self.spool, homes)

    def packed(self, data: bytes) -> None:
        """Take a batch as it is on the wire.

        Raises:
            DecodeError: it is none.
        """
        lanes = cut(data, lane_of)
        if lanes is not None:
            self._put(count(data), lanes)
            return
        batch = unpack(data)
        for alias in batch.aliases:
            self._families.link(alias.session, alias.into or alias.session)
        self._put(len(batch.calls), pack(batch.calls, batch.aliases, batch.reports, lane_of))

    def _put(self, size: int, lanes: dict[int, bytes]) -> None:
        for lane, data in lanes.items():
            write(self._lanes[lane], Frame(self._ordinal, size, data))
        self._ordinal += 1
        self.spool.calls += size


def frames(path: Path, told: Callable[[int], None] | None = None) -> Iterator[Frame]:
    """What a lane holds, in order.

    Args:
        told: called with the number of bytes that were read since it was called last, from time to time.
    """
    read = 0
    with path.open("rb", buffering=_BUFFER) as file:
        while head := file.read(_HEAD.size):
            ordinal, size, length = _HEAD.unpack(head)
            yield Frame(ordinal, size, file.read(length))
            read += _HEAD.size + length
            if told is not None and read >= _BUFFER:
                told(read)
                read = 0
    if told is not None:
        told(read)


def ordinal_of(frame: Frame) -> int:
    """By which frames of several files are merged."""
    return frame.ordinal


def _open(folder: Path, name: str) -> list[IO[bytes]]:
    return [(folder / f"{name}-{lane:02}").open("wb", buffering=_BUFFER) for lane in range(LANES)]


def write(file: IO[bytes], frame: Frame) -> None:
    """Add a frame to a file of them."""
    file.write(_HEAD.pack(frame.ordinal, frame.size, len(frame.data)))
    file.write(frame.data)


def _bring_home(spool: Spool, homes: dict[str, int]) -> None:
    """Put sessions that belong together, and were in several lanes, into one."""

    def home(session: str) -> int:
        return homes[session] if session in homes else lane_of(session)

    old = [spool.folder / f"lane-{lane:02}" for lane in range(LANES)]
    new = _open(spool.folder, "new")
    for ordinal, together in groupby(merge(*map(frames, old), key=ordinal_of), key=ordinal_of):
        found = list(together)
        pieces: defaultdict[int, list[bytes]] = defaultdict(list)
        for frame in found:
            for lane, data in _cut(frame, home, spool.read).items():
                pieces[lane].append(data)
        for lane, some in pieces.items():
            write(new[lane], Frame(ordinal, found[0].size, some[0] if len(some) == 1 else joined(some)))
    for lane, file in enumerate(new):
        file.close()
        (spool.folder / f"new-{lane:02}").replace(old[lane])


def _cut(frame: Frame, home: Home, read: Read) -> dict[int, bytes]:
    parts = cut(frame.data, home)
    if parts is not None:
        return parts
    try:
        batch = unpack(frame.data)
    except DecodeError as error:
        read.fail(f"batch {frame.ordinal}", str(error))
        return {}
    return pack(batch.calls, batch.aliases, batch.reports, home)
