"""Runs an adapter: sessions in, verdicts out. One that dies is started again, and the session at hand counts as let through."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from bench.peers.environment import ROOT
from bench.peers.protocol import Call

ANSWER_TIMEOUT_S: Final = 300
"""An adapter that takes longer over one session, or over its start, is stopped."""


class Died(Exception):
    """The adapter's process has ended without an answer; says what it wrote last."""


@dataclass(slots=True)
class Verdicts:
    """What a system made of the sessions of one file."""

    refused: dict[str, int | None] = field(default_factory=dict)
    """Session id → 0-based index of the first call refused; none: all were let through."""
    crashed: list[str] = field(default_factory=list)
    """Sessions over which the process died."""
    calls: dict[str, int] = field(default_factory=dict)
    """Session id → model calls."""
    version: str = ""


class Adapter:
    """One process of an adapter. Use it as a context manager.

    Args:
        command: how it is started, in the checkout.
    """

    def __init__(self, command: Sequence[str], timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )

    def __enter__(self) -> Self:
        try:
            self.version = str(self._answer()["version"])
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def first_refused(self, calls: Sequence[Call]) -> int | None:
        """Ask about one session.

        Raises:
            Died: it will not answer this, nor anything else.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"calls": calls}) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise Died(self._last_words()) from None
        refused = self._answer()["refused"]
        return None if refused is None else int(refused)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        watchdog = threading.Timer(self._timeout_s, self._process.kill)
        watchdog.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise Died(self._last_words())
        found: dict[str, Any] = json.loads(line)
        return found

    def _last_words(self) -> str:
        self._process.wait(self._timeout_s)
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return said[-1] if said else f"exit status {self._process.returncode}"

    def _stop(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()


def ask(command: Sequence[str], sessions: Iterable[tuple[str, list[Call]]]) -> Verdicts:
    """Show an adapter all sessions of a file.

    Raises:
        Died: it does not even start.
    """
    verdicts, waiting = Verdicts(), iter(sessions)
    while True:
        with Adapter(command) as adapter:
            verdicts.version = adapter.version
            try:
                for name, calls in waiting:
                    verdicts.refused[name], verdicts.calls[name] = None, len(calls)
                    verdicts.refused[name] = adapter.first_refused(calls)
            except Died:
                verdicts.crashed.append(name)
                continue
        return verdicts
