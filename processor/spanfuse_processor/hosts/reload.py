"""The configuration file, read again while a host runs: what it says of rules, budgets and tools holds from then on."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from spanfuse_processor.config import Config, load_config
from spanfuse_processor.errors import ConfigError, SpanfuseError
from spanfuse_schemas import POLICY_KEY, Policy, PolicyNotice

RELOADED: Final = ("detectors", "budgets", "policies", "tools")
"""Sections that are taken anew."""
OF_SERVICE: Final = ("mode", "idle_timeout_s")
"""Of the section `service`, these."""


class Reloader:
    """Reads the file again when it is told to. A file with mistakes changes nothing, and says so.

    Args:
        path: the file.
        config: what was read from it, and is in force.
        govern: makes another configuration the one in force.
        tell: says what became of it, in one line or several.
    """

    def __init__(
        self,
        path: Path,
        config: Config,
        govern: Callable[[Config], Awaitable[None]],
        tell: Callable[[str], None] = lambda line: print(f"spanfuse: {line}", file=sys.stderr, flush=True),
    ) -> None:
        self._path, self._govern, self._tell = path, govern, tell
        self._in_force = config
        self._turn = asyncio.Lock()
        self._work: set[asyncio.Task[None]] = set()

    def soon(self) -> None:
        """Reload, beside what runs: for a signal."""
        task = asyncio.ensure_future(self.reload())
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def reload(self) -> None:
        """Reload, and tell what became of it."""
        async with self._turn:
            try:
                said = await asyncio.to_thread(load_config, self._path)
            except ConfigError as error:
                self._tell(
                    "\n".join(["the configuration has mistakes; the one before stays in force", *error.problems])
                )
                return
            found, untaken = _merged(self._in_force, said)
            try:
                await self._govern(found)
            except SpanfuseError as error:
                self._tell(f"the configuration is in force, but not all of it was stored or published: {error}")
            changed = [name for name in (*RELOADED, "service") if getattr(found, name) != getattr(self._in_force, name)]
            self._in_force = found
            line = f"{self._path} was read again: {', '.join(changed) or 'nothing'} changed"
            self._tell(f"{line}; {', '.join(untaken)} changed, too, which takes a restart" if untaken else line)


def on_hangup(path: Path | None, config: Config, govern: Callable[[Config], Awaitable[None]]) -> None:
    """Read a file again on SIGHUP from now on, in the running event loop; without a file SIGHUP ends the process as before."""
    if path is not None:
        reloader = Reloader(path, config, govern)
        with suppress(NotImplementedError, AttributeError):  # a loop that has no signals, as on Windows
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloader.soon)


def _merged(in_force: Config, said: Config) -> tuple[Config, list[str]]:
    """What is in force once a file was read again, and the sections that differ and are not taken."""
    update: dict[str, Any] = {name: getattr(said, name) for name in RELOADED}
    service = {name: getattr(said.service, name) for name in OF_SERVICE}
    found = in_force.model_copy(update={**update, "service": in_force.service.model_copy(update=service)})
    return found, [name for name in Config.model_fields if getattr(found, name) != getattr(said, name)]


def notice_of(policy: Policy, before: PolicyNotice | None = None) -> PolicyNotice:
    """A policy, to be told to Guards.

    Args:
        before: what this host has told them before.
    """
    now_ns = time.time_ns()
    epoch = max(now_ns // 1_000_000, before.epoch + 1 if before else 0)
    return PolicyNotice(key=POLICY_KEY, epoch=epoch, issued_at_ns=now_ns, policy=policy)
