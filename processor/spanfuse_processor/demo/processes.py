"""The agent processes: started together, listened to, and always ended."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable
from typing import Any, Final, Self

from spanfuse_processor.demo.scenarios import Scenario

TERMINATE_TIMEOUT_S: Final = 3
"""How long a process may take to end when asked to, seconds; then it is killed."""

MAX_EVENTS: Final = 10_000
"""Events that may wait to be read; a reader thread then waits, and with it its agent."""

_FOREIGN: Final = ("OTEL_", "SPANFUSE_")


def environment() -> dict[str, str]:
    """The environment for an agent: ours, without what would send its spans elsewhere, switch its Guard off, or put a proxy
    before the loopback interface."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_FOREIGN) and not name.lower().endswith("_proxy")
    }


Event = tuple[str, dict[str, Any]]


class Agents:
    """One process per scenario, while the context lasts.

    Args:
        scenarios: which agents.
        otlp, llm, api: base URLs.
    """

    def __init__(self, scenarios: Iterable[Scenario], *, otlp: str, llm: str, api: str) -> None:
        self._names = [scenario.name for scenario in scenarios]
        self._options = ("--otlp", otlp, "--llm", llm, "--api", api)
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._events: queue.Queue[Event] = queue.Queue(MAX_EVENTS)

    def __enter__(self) -> Self:
        try:
            for name in self._names:
                self._start(name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, name: str) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "spanfuse_processor.demo.agent", name, *self._options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            start_new_session=True,  # Ctrl-C is for the launcher, which then ends them
        )
        self._processes[name] = process
        threading.Thread(target=self._listen, args=(name, process), name=f"listen-{name}", daemon=True).start()

    def _listen(self, name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        last = ""

        def keep_last_error(errors: Iterable[str]) -> None:
            nonlocal last
            for line in errors:
                last = line.strip() or last

        errors = threading.Thread(target=keep_last_error, args=(process.stderr,), daemon=True)
        errors.start()
        for line in process.stdout:
            self._events.put((name, json.loads(line)))
        code = process.wait()
        errors.join(timeout=1)
        self._events.put((name, {"event": "exit", "message": last or f"ended with exit code {code}"}))

    def next_event(self, timeout_s: float) -> Event | None:
        """The next thing an agent told; none if nothing within the time."""
        try:
            return self._events.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def go(self) -> None:
        """Let all begin."""
        for process in self._processes.values():
            assert process.stdin is not None
            try:
                process.stdin.write("go\n")
                process.stdin.flush()
            except BrokenPipeError:  # it has ended, which its exit event tells
                continue

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(TERMINATE_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(TERMINATE_TIMEOUT_S)
