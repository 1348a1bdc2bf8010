"""Writes what a source holds as packed calls: no content, small, and replayed as the source itself would be.

A file has one `CallBatch` a line, in the order of the source. The last line of the last file says what else was read: requests
that made no call, spans that were left out, and why.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final, Self, cast

from spanfuse_processor.config import Config
from spanfuse_processor.hosts.replay.ingest import read_into
from spanfuse_processor.hosts.replay.packed import unpack
from spanfuse_processor.hosts.replay.sources import Progress, Source, untold
from spanfuse_processor.hosts.replay.spool import Read
from spanfuse_schemas import CallBatch

MAX_FILE_BYTES: Final = 256 * 1024 * 1024
"""Size from which on another file is begun, bytes before they are compressed; a tenth of it on disk, some 400,000 calls."""
SUFFIX: Final = ".calls.jsonl.gz"
LEVEL: Final = 4
"""Of compression: half the time of the default, and a few percent larger."""


@dataclass(frozen=True)
class Recorded:
    """What was written."""

    files: tuple[Path, ...]
    calls: int
    read: Read


def record(
    source: Source,
    config: Config,
    out: Path,
    progress: Progress = untold,
    *,
    processes: int = 1,
    name: str = "calls",
    max_bytes: int = MAX_FILE_BYTES,
) -> Recorded:
    """Write what a source holds to files.

    Args:
        config: reads spans; see `ingest`.
        out: a file, if its name ends with `.jsonl` or `.jsonl.gz`; else a directory, in which files are numbered.
        processes: how many make calls of spans.
        name: how files in a directory begin.
        max_bytes: of a file in a directory, before it is compressed.

    Raises:
        SpanfuseError: nothing can be read there; see `TopicRange.items`.
        OSError: it cannot be written.
    """
    with _Sheets(out, name, max_bytes) as sheets:
        (read,) = read_into(source, [config], [sheets], progress, processes)
        sheets.end(read)
    return Recorded(tuple(sheets.files), sheets.calls, read)


class _Sheets:
    """Files, one after the other."""

    def __init__(self, out: Path, name: str, max_bytes: int) -> None:
        self.files: list[Path] = []
        self.calls = 0
        self._out, self._name = out, name
        self._max = None if out.name.endswith((".jsonl", ".jsonl.gz")) else max_bytes
        self._size = self._lines = 0
        self._file = self._begun()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def packed(self, data: bytes) -> None:
        """Write a batch: only what one of this version has is kept, and no orders of operators.

        Raises:
            DecodeError: it is none.
        """
        whole = unpack(data)
        batch = CallBatch.made(calls=whole.calls, aliases=whole.aliases, reports=whole.reports)
        if self._max is not None and self._size >= self._max:
            self._file.close()
            self._file = self._begun()
        self._write(batch.to_json())
        self._lines += 1
        self.calls += len(batch.calls)

    def end(self, read: Read) -> None:
        """Say what was read beside the lines, each of which counts as one request when it is read again."""
        self._write(replace(read, requests=read.requests - self._lines, files=0).to_json())

    def _begun(self) -> IO[bytes]:
        path = self._out
        if self._max is not None:
            path.mkdir(parents=True, exist_ok=True)
            path = path / f"{self._name}-{len(self.files) + 1:05}{SUFFIX}"
        self.files.append(path)
        self._size = 0
        return cast("IO[bytes]", gzip.open(path, "wb", LEVEL)) if path.suffix == ".gz" else path.open("wb")

    def _write(self, line: bytes) -> None:
        self._file.write(line + b"\n")
        self._size += len(line) + 1
