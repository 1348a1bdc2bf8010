"""Sends what people are told, each receiver by a task of its own with a bounded queue: a dead one holds up nobody else."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Final

from spanfuse_processor.exporters.alerts.model import Delivery, Notice
from spanfuse_processor.exporters.alerts.sender import LaterError, RefusedError, Sender

log = logging.getLogger(__name__)

FIRST_S: Final = 1.0
"""Longest pause before the first further try, seconds; each after it doubles."""
LONGEST_S: Final = 60.0
"""Longest pause, unless the receiver asks for a longer one."""


class Outlet:
    """One receiver.

    Args:
        name: of the receiver.
        sender: tells it.
        queue: messages that may wait; of more the oldest are dropped.
        timeout_s: how long a try may take, seconds.
        give_up_after_s: how long a message is tried, seconds.
        pause: waits so many seconds.
    """

    def __init__(
        self,
        name: str,
        sender: Sender,
        queue: int = 1_000,
        timeout_s: float = 10,
        give_up_after_s: float = 1_800,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name, self._sender = name, sender
        self._waiting: deque[tuple[Notice, float]] = deque()
        self._queue, self._timeout_s, self._give_up_after_s, self._pause = queue, timeout_s, give_up_after_s, pause
        self._news = asyncio.Event()
        self.idle = asyncio.Event()
        """Nothing waits, nor is being sent."""
        self.idle.set()
        self.counts: Counter[str] = Counter(
            dict.fromkeys(("delivered", "retries", "refused", "given_up", "dropped"), 0)
        )
        """What became of messages: `delivered`; `refused`, for good; `given_up` after tries; `dropped` for want of room; and
        how often one was tried again (`retries`)."""

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, notice: Notice) -> None:
        """Have it sent; never waits."""
        if len(self._waiting) >= self._queue:
            self._waiting.popleft()
            self.counts["dropped"] += 1
        self._waiting.append((notice, time.monotonic()))
        self.idle.clear()
        self._news.set()

    async def run(self) -> None:
        """Send what comes, in order, until it is cancelled."""
        while True:
            while self._waiting:
                await self._deliver(*self._waiting.popleft())
            self.idle.set()
            self._news.clear()
            await self._news.wait()

    async def _deliver(self, notice: Notice, since_s: float) -> None:
        pause_s = FIRST_S
        while True:
            try:
                await self._try(notice)
                self.counts["delivered"] += 1
                return
            except RefusedError as error:
                self._lost("refused", error)
                return
            except LaterError as error:
                wait_s = max(error.after_s, pause_s * random.uniform(0.5, 1))
                if time.monotonic() - since_s + wait_s > self._give_up_after_s:
                    self._lost("given_up", error)
                    return
                self.counts["retries"] += 1
                pause_s = min(2 * pause_s, LONGEST_S)
                await self._pause(wait_s)

    async def _try(self, notice: Notice) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._sender.send(notice)
        except TimeoutError:
            raise LaterError(f"no answer within {self._timeout_s:g} s") from None
        except (RefusedError, LaterError):
            raise
        except Exception as error:  # whatever is the matter with one message, the next is sent
            log.exception("an alert cannot be sent to %s", self.name)
            raise RefusedError(f"unexpected: {type(error).__name__}") from error

    def _lost(self, how: str, error: Exception) -> None:
        if not self.counts[how]:
            log.warning("an alert to %s was lost: %s; such are counted, the first is logged", self.name, error)
        self.counts[how] += 1

    async def test(self, notice: Notice) -> Delivery:
        """Send it at once, by itself, and tell what became of it."""
        try:
            await self._try(notice)
        except (RefusedError, LaterError) as error:
            return Delivery(receiver=self.name, kind=self._sender.kind, delivered=False, why=str(error))
        return Delivery(receiver=self.name, kind=self._sender.kind, delivered=True)
