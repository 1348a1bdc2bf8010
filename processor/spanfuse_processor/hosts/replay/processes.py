"""Several processes that work off a list of jobs. One that dies is an error; when the caller is interrupted, all end."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from spanfuse_processor.errors import SpanfuseError

_END_S: Final = 5.0
"""How long a process that was killed may take to be gone, seconds."""


class Job(NamedTuple):
    """Something to do: `work(*arguments, told)`, in a process that knows nothing else."""

    work: Callable[..., Any]
    """A function of a module; `told` is called with how much was done since it was called last."""
    arguments: tuple[Any, ...]


Told = Callable[[int], None]


class Crew:
    """So many processes. Use it as a context manager.

    Args:
        processes: how many; 1: this one alone.
    """

    def __init__(self, processes: int) -> None:
        self._size = processes
        self._hands: dict[Connection, Any] = {}

    def __enter__(self) -> Self:
        if self._size > 1:
            context = multiprocessing.get_context("forkserver")
            context.set_forkserver_preload([__name__, "spanfuse_processor.hosts.replay.run"])
            for _ in range(self._size):
                mine, theirs = context.Pipe()
                process = context.Process(target=_work, args=(theirs,), daemon=True)
                self._hands[mine] = process
                process.start()
                theirs.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection, process in self._hands.items():
            connection.close()
            process.kill()
        for process in self._hands.values():
            process.join(_END_S)

    def do(self, jobs: Sequence[Job], told: Told) -> Iterator[tuple[int, Any]]:
        """Do the jobs, as many at a time as there are processes.

        Yields:
            Number of a job and what it gave, in the order in which they are done.

        Raises:
            SpanfuseError: a process was killed.
            Exception: what a job raises.
        """
        if not self._hands:
            yield from ((number, job.work(*job.arguments, told)) for number, job in enumerate(jobs))
            return
        ahead = iter(enumerate(jobs))
        at_work = {hand for hand in self._hands if _given(hand, next(ahead, None))}
        while at_work:
            for hand in wait(at_work):
                assert isinstance(hand, Connection)
                what, number, result = self._heard(hand)
                if what == "told":
                    told(result)
                    continue
                if what == "failed":
                    raise result
                if not _given(hand, next(ahead, None)):
                    at_work.discard(hand)
                yield number, result

    def _heard(self, hand: Connection) -> tuple[str, int, Any]:
        try:
            heard: tuple[str, int, Any] = hand.recv()
        except (EOFError, ConnectionError):
            process = self._hands[hand]
            process.join(_END_S)
            raise SpanfuseError(f"a process has ended before its work was done ({_why(process.exitcode)})") from None
        return heard


def _given(hand: Connection, job: tuple[int, Job] | None) -> bool:
    """Hand a job over; false: there is none left."""
    if job is not None:
        hand.send(job)
    return job is not None


def _why(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    hint = "; is there enough memory?" if -code == signal.SIGKILL else ""
    return f"signal {-code}{hint}"


def _work(hand: Connection) -> None:
    """What a process does until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever has started it ends it
    try:
        while True:
            number, job = hand.recv()
            try:
                result = job.work(*job.arguments, lambda done, number=number: hand.send(("told", number, done)))
            except ConnectionError:
                return
            except Exception as error:
                hand.send(("failed", number, error))
            else:
                hand.send(("done", number, result))
    except (EOFError, ConnectionError):
        return
