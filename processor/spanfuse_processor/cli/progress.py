"""How far a long command is, on stderr, where that is a terminal."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spanfuse_processor.hosts.replay import Progress


@contextmanager
def bars() -> Iterator[Progress]:
    """A bar for each step, with the time that it will take; nothing where nobody looks. What has been asked to end by SIGTERM
    cleans up as after Ctrl-C, and what goes wrong with Kafka is told by the command, not by the client library, too."""
    library = logging.getLogger("aiokafka")
    level, before = library.level, signal.signal(signal.SIGTERM, _end)
    library.setLevel(logging.CRITICAL)
    try:
        with _shown() as progress:
            yield progress
    finally:
        library.setLevel(level)
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _shown() -> Iterator[Progress]:
    if not sys.stderr.isatty():
        yield lambda step, done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description:10}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("left"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        tasks = {}

        def tell(step: str, done: float, total: float) -> None:
            if step not in tasks:
                tasks[step] = shown.add_task(step, total=total or None)
            shown.update(tasks[step], completed=done, total=total or None)

        yield tell


def _end(signum: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + signum)
