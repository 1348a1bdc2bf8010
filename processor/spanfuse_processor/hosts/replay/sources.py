"""Where a replay reads: recordings on disk or from a pipe, or a range of Kafka topics."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from spanfuse_processor.hosts.recordings import STDIN, Recorded, find, requests
from spanfuse_processor.hosts.spans import is_logs, with_logs

if TYPE_CHECKING:
    from spanfuse_processor.config import KafkaSettings
    from spanfuse_processor.hosts.replay.spool import Read


_LARGE: Final = 500_000
"""Size of files from which on it pays to start processes, bytes, compressed or not."""


class Progress(Protocol):
    """Is told how far something is."""

    def __call__(self, step: str, done: float, total: float) -> None:
        """Called from time to time, and at the end of a step.

        Args:
            step: what is done, such as `reading`.
            total: how much there is to do, in whatever unit; 0: unknown.
        """


class Item(NamedTuple):
    """One export request, or one batch of packed calls."""

    recorded: Recorded
    logs: bool
    """Protobuf does not say: it is a request of log records."""
    received_ns: int
    """When it was received, nanoseconds since the Unix epoch; 0: unknown."""


@dataclass(frozen=True)
class Files:
    """Recordings: files, directories, `-`; see `recordings`. They are read one after the other, in the order given."""

    paths: tuple[Path, ...]

    @property
    def is_large(self) -> bool:
        """Whether it pays to read them with several processes."""
        files = list(find(self.paths))
        return not all(map(Path.is_file, files)) or sum(path.stat().st_size for path in files) > _LARGE

    def items(self, read: Read, told: Progress) -> Iterator[Item]:
        """What they hold.

        Args:
            read: is told of files that were read, and of those that could not be.
        """
        paths = list(with_logs(find(self.paths)))
        sizes = [path.stat().st_size if path.is_file() else 0 for path in paths]
        total = float(sum(sizes)) if all(sizes) else 0.0
        for number, path in enumerate(paths):
            at = partial(_told, told, sum(sizes[:number]), total)
            try:
                for recorded in requests(path, at):
                    yield Item(recorded, is_logs(path), 0)
            except (OSError, EOFError, zlib.error) as error:
                read.fail("standard input" if path == STDIN else path.name, str(error))
            else:
                read.files += 1


@dataclass(frozen=True)
class TopicRange:
    """What was written to topics within a time, of all their partitions; nothing is committed, and nothing written.

    Messages are read in the order of their times, those of a partition in their own.
    """

    settings: KafkaSettings
    topics: tuple[str, ...]
    from_ns: int | None = None
    """Time of the first message, nanoseconds since the Unix epoch; none: from the beginning."""
    to_ns: int | None = None
    """Time before which messages were written; none: all that are there when it begins."""

    @property
    def is_large(self) -> bool:
        """As of `Files`; it is not known how much a topic holds, as some messages are large."""
        return True

    def items(self, read: Read, told: Progress) -> Iterator[Item]:
        """What they hold; see `Files.items`.

        Raises:
            UnavailableError: Kafka does not answer.
            SpanfuseError: a topic does not exist, or there is nothing in this time.
        """
        from spanfuse_processor.hosts.replay.topic import items

        return items(self, told)


def _told(progress: Progress, before: int, total: float, at: int) -> None:
    progress("reading", before + at, total)


Source = Files | TopicRange


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def untold(step: str, done: float, total: float) -> None:
    """Nobody is told."""
