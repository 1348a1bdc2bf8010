"""Recorded OTLP on disk: which files there are, and the requests in each, one at a time.

Three forms are read, plain or gzipped: JSON lines (one ExportTraceServiceRequest a line, as the Collector's file exporter
writes), a whole JSON document, and protobuf (one request a file; `.bin`, `.pb`). What is no regular file, such as a pipe,
can be read once only, and is JSON lines; `-` is standard input.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import Final, Literal, NamedTuple

MAX_REQUEST_BYTES: Final = 64 * 1024 * 1024
"""Longest line or document that is read, bytes; what is longer is counted as undecodable. The largest request that an OTLP
exporter sends is 4 MiB over gRPC by default, so that this is no limit in practice."""

MAX_PROBLEMS: Final = 20
"""Requests and files that cannot be read: so many are told one by one; all are counted."""


@dataclass(slots=True)
class Problems:
    """What could not be read."""

    undecodable: int = 0
    """Requests that could not be decoded, and files that could not be read to their end."""
    problems: list[str] = field(default_factory=list)
    """The first of those, with file and line."""

    def fail(self, where: str, why: str) -> None:
        """Note what could not be read."""
        self.failed(1, [f"{where}: {why}"])

    def failed(self, count: int, problems: Iterable[str]) -> None:
        """Note what could not be read elsewhere."""
        self.undecodable += count
        self.problems = [*self.problems, *problems][:MAX_PROBLEMS]


STDIN: Final = Path("-")
"""Stands for standard input."""

_JSON: Final = (".json", ".jsonl", ".ndjson")
_PROTOBUF: Final = (".bin", ".pb")


class Recorded(NamedTuple):
    """One request as it was recorded."""

    data: bytes | None
    """The request; none: it is longer than `MAX_REQUEST_BYTES`."""
    encoding: Literal["protobuf", "json"]
    """How it is encoded."""
    where: str
    """File and line, for people."""


def find(paths: Iterable[Path]) -> Iterator[Path]:
    """The files themselves, and for a directory the recordings below it, by name."""
    for path in paths:
        if path.is_dir():
            yield from sorted(p for p in path.rglob("*") if p.is_file() and _suffix(p) in (*_JSON, *_PROTOBUF))
        else:
            yield path


def requests(path: Path, told: Callable[[int], None] | None = None) -> Iterator[Recorded]:
    """The requests of one file, in their order; holds one at a time.

    Args:
        told: called from time to time with the number of bytes that were read of it.

    Raises:
        OSError, EOFError, zlib.error: if the file cannot be read, or its compression ends early.
    """
    if _suffix(path) in _PROTOBUF:
        with _open(path) as file:
            yield Recorded(_bounded(file.read(MAX_REQUEST_BYTES + 1)), "protobuf", path.name)
    elif _is_document(path):
        with _open(path) as file:
            yield Recorded(_bounded(file.read(MAX_REQUEST_BYTES + 1)), "json", path.name)
    else:
        yield from _lines(path, told)


def _suffix(path: Path) -> str:
    name = path.name.removesuffix(".gz")
    return Path(name).suffix.lower()


@contextmanager
def _open(path: Path) -> Iterator[BufferedIOBase]:
    with open(0, "rb", closefd=False) if path == STDIN else path.open("rb") as file:
        # No more than the first byte may have come so far through a pipe; neither JSON nor protobuf begins with this one.
        if file.peek(1)[:1] == b"\x1f":
            with gzip.open(file, "rb") as inflated:
                yield inflated
        else:
            yield file


def _bounded(data: bytes) -> bytes | None:
    return data if len(data) <= MAX_REQUEST_BYTES else None


def _is_document(path: Path) -> bool:
    """Whether a `.json` file is one document printed over several lines: its first line alone opens more than it closes."""
    if _suffix(path) != ".json" or not path.is_file():
        return False
    with _open(path) as file:
        first = file.readline(MAX_REQUEST_BYTES).strip()
    return first in (b"", b"{") or first.endswith((b"[", b"{", b","))


def _lines(path: Path, told: Callable[[int], None] | None) -> Iterator[Recorded]:
    with _open(path) as file:
        number = 0
        stored = getattr(file, "fileobj", file)
        told = told if path.is_file() else None
        while line := file.readline(MAX_REQUEST_BYTES + 1):
            number += 1
            whole = line.endswith(b"\n") or len(line) <= MAX_REQUEST_BYTES
            if not whole:
                _skip_line(file)
            if line.strip():
                yield Recorded(line if whole else None, "json", f"{path.name}:{number}")
            if told is not None:
                told(stored.tell())


def _skip_line(file: BufferedIOBase) -> None:
    while (rest := file.readline(1024 * 1024)) and not rest.endswith(b"\n"):
        pass
