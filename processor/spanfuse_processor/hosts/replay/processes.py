"""Processes beside this one. One that dies is an error; when the caller is interrupted, all end."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from spanfuse_processor.errors import SpanfuseError

_END_S: Final = 5.0
"""How long a process that was killed may take to be gone, seconds."""

Told = Callable[[int], None]


class Hands:
    """Processes with which one talks over a pipe each.

    Args:
        work: what each does, in a process that knows nothing else: gets its end of the pipe, and the arguments.
    """

    def __init__(self, processes: int, work: Callable[..., None], *arguments: Any) -> None:
        self._size, self._work, self._arguments = processes, work, arguments
        self.pipes: list[Connection] = []
        self._processes: list[Any] = []

    def start(self) -> None:
        """Start them."""
        if not self._size:
            return
        context = multiprocessing.get_context(
            "spawn"
        )  # a fork server needs a socket, whose path TMPDIR may make too long
        resource_tracker.ensure_running()  # to start it would unblock the signal
        # Ctrl-C is this process's affair, which ends the others: they are born deaf to it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for _ in range(self._size):
                mine, theirs = context.Pipe()
                self.pipes.append(mine)
                process = context.Process(target=self._work, args=(theirs, *self._arguments), daemon=True)
                self._processes.append(process)
                process.start()
                theirs.close()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def kill(self) -> None:
        """End them, whatever they do."""
        for pipe, process in zip(self.pipes, self._processes, strict=True):
            pipe.close()
            process.kill()
        for process in self._processes:
            process.join(_END_S)

    def send(self, which: int, what: Any) -> None:
        """Tell one of them something.

        Raises:
            SpanfuseError: it has ended.
        """
        try:
            self.pipes[which].send(what)
        except ConnectionError:
            self.receive(which)  # it may have said why
            raise

    def receive(self, which: int) -> Any:
        """What one of them says.

        Raises:
            SpanfuseError: it has ended.
            Exception: what it has raised.
        """
        try:
            what, *result = self.pipes[which].recv()
        except (EOFError, ConnectionError):
            process = self._processes[which]
            process.join(_END_S)
            raise SpanfuseError(f"a process has ended before its work was done ({_why(process.exitcode)})") from None
        if what == "failed":
            raise result[0]
        return result[0] if what == "done" else (what, *result)


@contextmanager
def ended(hand: Connection) -> Iterator[None]:
    """Around what such a process does: it says what goes wrong, and ends when nobody listens any more."""
    try:
        yield
    except (EOFError, ConnectionError):
        return
    except Exception as error:
        with suppress(ConnectionError):
            hand.send(("failed", error))


class Job(NamedTuple):
    """Something to do: `work(*arguments, told)`."""

    work: Callable[..., Any]
    """A function of a module; `told` is called with how much was done since it was called last."""
    arguments: tuple[Any, ...]


class Crew:
    """Processes that work off a list of jobs. Use it as a context manager.

    Args:
        processes: how many; 1: this one alone.
    """

    def __init__(self, processes: int) -> None:
        self._hands = Hands(processes if processes > 1 else 0, _work)

    def __enter__(self) -> Self:
        self._hands.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hands.kill()

    def do(self, jobs: Sequence[Job], told: Told) -> Iterator[tuple[int, Any]]:
        """Do the jobs, as many at a time as there are processes.

        Yields:
            Number of a job and what it gave, in the order in which they are done.

        Raises:
            SpanfuseError: a process was killed.
            Exception: what a job raises.
        """
        pipes = self._hands.pipes
        if not pipes:
            yield from ((number, job.work(*job.arguments, told)) for number, job in enumerate(jobs))
            return
        ahead = iter(enumerate(jobs))
        at_work = {pipe: which for which, pipe in enumerate(pipes) if self._given(which, next(ahead, None))}
        while at_work:
            for pipe in wait(list(at_work)):
                assert isinstance(pipe, Connection)
                what, *result = self._hands.receive(at_work[pipe])
                if what == "told":
                    told(*result)
                    continue
                if not self._given(at_work[pipe], next(ahead, None)):
                    del at_work[pipe]
                number, made = result
                yield number, made

    def _given(self, which: int, job: tuple[int, Job] | None) -> bool:
        """Hand a job over; false: there is none left."""
        if job is not None:
            self._hands.send(which, job)
        return job is not None


def _why(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    hint = "; is there enough memory?" if -code == signal.SIGKILL else ""
    return f"signal {-code}{hint}"


def _work(hand: Connection) -> None:
    """What a process of a crew does until the other end is closed."""
    with ended(hand):
        while True:
            number, job = hand.recv()
            result = job.work(*job.arguments, lambda done: hand.send(("told", done)))
            hand.send(("made", number, result))
