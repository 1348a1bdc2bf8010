"""What a host does about the ledger of strict budgets all the time: it publishes them, and compares the accounts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.hosts.ledger import LedgerLink
from spanfuse_schemas import Policy

log = logging.getLogger(__name__)

MAX_COMPARED: Final = 10_000
"""Scopes looked up at each comparison."""
_AT_ONCE: Final = 100
"""Scopes looked up before others have their turn."""

Booked = dict[str, dict[str, int]]
"""Scope → account → what was settled."""
Rows = list[dict[str, Any]]
"""Accounts as they are listed."""


class LedgerWatch:
    """Runs beside a host. A ledger that is away stops nothing.

    Args:
        link: the ledger.
        compared: for what was settled: what of it concerns this host, and the accounts by its spans.
        interval_s: how often they are compared, seconds.
        tell: called when a comparison came to something else than the one before.
    """

    def __init__(
        self,
        link: LedgerLink,
        compared: Callable[[Booked], Awaitable[tuple[Booked, Rows]]],
        interval_s: float,
        tell: Callable[[], None] = lambda: None,
    ) -> None:
        self.link = link
        self._compared = compared
        self._interval_s = interval_s
        self._tell = tell
        self._published = False
        self._failed = False
        """A comparison has failed; told once."""

    async def publish(self) -> None:
        """Guards can reserve from then on."""
        try:
            await asyncio.to_thread(self.link.define)
            self._published = True
        except UnavailableError as error:
            log.warning("%s; budgets are published when it is back", error)

    async def follow(self, policy: Policy) -> None:
        """Go by another policy, and publish it."""
        self.link.follow(policy)
        self._published = False
        await self.publish()

    async def run(self) -> None:
        """Publish, then compare, until it is cancelled."""
        if not self._published:
            await self.publish()
        while True:
            await asyncio.sleep(self._interval_s)
            before = self.counts()
            await self._tried()
            if self.counts() != before:
                self._tell()

    async def _tried(self) -> None:
        try:
            await self._compare()
        except Exception as error:  # whatever is the matter with one look, the next is taken
            if not self._failed:
                log.warning(
                    "the ledger cannot be compared: %s", error, exc_info=not isinstance(error, UnavailableError)
                )
            self._failed = True

    async def _compare(self) -> None:
        booked = await asyncio.to_thread(self.link.booked)
        if booked is None:
            self._published = False  # it may come back empty
            return
        if not self._published:
            await self.publish()
        self.link.compare(*await self._compared(booked))

    def counts(self) -> dict[str, Any]:
        """What the last comparison came to; empty before the first. A scope that has never reserved anything, of a budget that
        names nobody, is not among it."""
        last = self.link.comparison
        if not last.at_ns:
            return {}
        shown = {name: getattr(last, name) for name in ("reachable", "accounts", "differing", "difference_nano_usd")}
        return {"ledger": shown}

    def close(self) -> None:
        """Let the connection go."""
        self.link.close()


async def looked_up(scopes: Iterable[str], accounts: Callable[[str], Rows | None]) -> dict[str, Rows]:
    """The accounts of some scopes, of `MAX_COMPARED` at most, so that nobody is kept waiting.

    Args:
        accounts: gives those of a scope; none if it lives elsewhere.
    """
    found: dict[str, Rows] = {}
    for at, scope in enumerate(list(dict.fromkeys(scopes))[:MAX_COMPARED]):
        rows = accounts(scope)
        if rows is not None:
            found[scope] = rows
        if at % _AT_ONCE == _AT_ONCE - 1:
            await asyncio.sleep(0)
    return found
