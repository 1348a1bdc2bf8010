"""The processes that read a source, each some shards of it; the caller reads what is on disk or in Kafka and hands it on."""

from __future__ import annotations

from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from spanfuse_processor.config import Config
from spanfuse_processor.hosts.replay.processes import Hands, ended
from spanfuse_processor.hosts.replay.shards import Ingested, Piece, Shards

_AT_ONCE: Final = 256 * 1024
"""Bytes that are handed on together."""


class Readers:
    """So many processes. Use it as a context manager.

    Args:
        folder: gets what they make; see `Shards`.
        processes: how many; 1: this one alone.
    """

    def __init__(self, folder: Path, configs: Sequence[Config], processes: int) -> None:
        self._alone = Shards(folder, configs) if processes == 1 else None
        self._hands = Hands(0 if self._alone is not None else processes, _read, folder, configs)
        self._waiting: list[list[Piece]] = [[] for _ in range(processes)]
        self._sizes = [0] * processes

    def __enter__(self) -> Self:
        self._hands.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hands.kill()
        if self._alone is not None:
            self._alone.__exit__()

    def take(self, piece: Piece) -> None:
        """Take what a request holds of one shard.

        Raises:
            SpanfuseError: a process was killed.
        """
        if self._alone is not None:
            self._alone.take(piece)
            return
        which = piece.shard % len(self._waiting)
        self._waiting[which].append(piece)
        self._sizes[which] += len(piece.item.recorded.data or b"")
        if self._sizes[which] >= _AT_ONCE:
            self._hand_on(which)

    def end(self) -> list[Ingested]:
        """Nothing more will come: what was read under each configuration.

        Raises:
            SpanfuseError: a process was killed.
            Exception: what one of them has raised.
        """
        if self._alone is not None:
            return self._alone.end()
        for which in range(len(self._waiting)):
            self._hand_on(which)
            self._hands.send(which, None)
        first, *others = [self._hands.receive(which) for which in range(len(self._waiting))]
        for other in others:
            for read, more in zip(first, other, strict=True):
                read.add(more)
        found: list[Ingested] = first
        return found

    def _hand_on(self, which: int) -> None:
        self._hands.send(which, self._waiting[which])
        self._waiting[which], self._sizes[which] = [], 0


def _read(hand: Connection, folder: Path, configs: Sequence[Config]) -> None:
    """What a process does until it is told that nothing more will come."""
    with ended(hand), Shards(folder, configs) as shards:
        while (some := hand.recv()) is not None:
            for piece in some:
                shards.take(piece)
        hand.send(("done", shards.end()))
