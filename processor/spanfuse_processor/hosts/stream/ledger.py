"""A worker's part in the ledger of strict budgets: it publishes them, and compares the accounts of its own partitions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.hosts.ledger import LedgerLink

log = logging.getLogger(__name__)

MAX_COMPARED: Final = 10_000
"""Scopes looked up at each comparison."""


class LedgerWatch:
    """Runs beside the hops.

    Args:
        link: the ledger.
        accounts: gives the accounts of a scope; none if it lives elsewhere.
        interval_s: how often they are compared, seconds.
        tell: called when a comparison came to something else than the one before.
    """

    def __init__(
        self,
        link: LedgerLink,
        accounts: Callable[[str], list[dict[str, Any]] | None],
        interval_s: float,
        tell: Callable[[], None],
    ) -> None:
        self._link = link
        self._accounts = accounts
        self._interval_s = interval_s
        self._tell = tell

    async def run(self) -> None:
        """Publish, then compare, until it is cancelled. A ledger that is away stops nothing."""
        published = await self._define()
        while True:
            await asyncio.sleep(self._interval_s)
            before = self.counts()
            booked = await asyncio.to_thread(self._link.booked)
            if booked is None:
                published = False
            else:
                published = published or await self._define()
                await self._compare(booked)
            if self.counts() != before:
                self._tell()

    async def _define(self) -> bool:
        try:
            await asyncio.to_thread(self._link.define)
        except UnavailableError as error:
            log.warning("%s; budgets are published when it is back", error)
            return False
        return True

    async def _compare(self, booked: dict[str, dict[str, int]]) -> None:
        rows: list[dict[str, Any]] = []
        mine: dict[str, dict[str, int]] = {}
        for at, scope in enumerate(list(dict.fromkeys((*self._link.named, *booked)))[:MAX_COMPARED]):
            found = self._accounts(scope)
            if found is not None:
                mine[scope] = booked.get(scope, {})
                rows += found
            if at % 100 == 99:
                await asyncio.sleep(0)
        self._link.compare(mine, rows)

    def counts(self) -> dict[str, Any]:
        """What the last comparison came to; empty before the first. A scope that has never reserved anything, of a budget that
        names nobody, is not among it."""
        last = self._link.comparison
        if not last.at_ns:
            return {}
        shown = {name: getattr(last, name) for name in ("reachable", "accounts", "differing", "difference_nano_usd")}
        return {"ledger": shown}

    def close(self) -> None:
        """Let the connection go."""
        self._link.close()
