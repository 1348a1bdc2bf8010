"""What a Guard pays from: the ledger; while that is away a local allowance, and what was spent of it is settled afterwards."""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from spanfuse.ledger.allowance import Allowance
from spanfuse.ledger.amounts import Amounts
from spanfuse.ledger.bills import Bill, Bills
from spanfuse.ledger.book import Definitions
from spanfuse.ledger.connect import connect
from spanfuse.ledger.errors import Away, LedgerError, Unavailable, UnknownCall
from spanfuse.ledger.ledger import Ledger
from spanfuse.ledger.records import Hold, Refusal
from spanfuse.ledger.steps import HOLD_S

FIRST_TRY_S: Final = 0.25
"""When the ledger is asked again after it went away, seconds; then after twice as long each time."""
LAST_TRY_S: Final = 5.0
"""At most that long, seconds."""
REMEMBERED_S: Final = 3600.0
"""How long a ledger remembers that a call was settled, seconds (`ledger.lua`): whether an answer that was lost stood for a
settlement cannot be told later."""

log = logging.getLogger("spanfuse")


class Purse:
    """Reserves and settles, and never waits for a ledger that is known to be away.

    Args:
        ledger: the ledger.
        owned: it is nobody else's, and closed with the purse.
    """

    def __init__(self, ledger: Ledger, *, owned: bool = False) -> None:
        self.ledger: Final = ledger
        self._owned = owned
        self._begin_anew()
        atexit.register(_settle_last, weakref.ref(self))

    def _begin_anew(self) -> None:
        self.away = ""
        """Why the ledger cannot be reached; empty while it can."""
        self._too_late = 0
        self._allowance = Allowance()
        self._bills = Bills()
        self._local: dict[str, tuple[Hold, Mapping[str, str]]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()

    after_fork = _begin_anew
    """What the parent owes is the parent's to settle."""

    @property
    def definitions(self) -> Definitions | None:
        """What the ledger publishes; None: it was never heard of."""
        book = self.ledger.book
        return book.definitions if book is not None else None

    @property
    def pending(self) -> int:
        """Settlements that wait for the ledger."""
        return len(self._bills)

    @property
    def lost(self) -> int:
        """Settlements dropped for want of room, or because they may have been carried out long ago."""
        return self._bills.lost + self._too_late

    def know(self) -> None:
        """Read the definitions if none are known: the first estimate, too, is made with their prices."""
        if self.ledger.book is None and not self.away:
            try:
                self.ledger.budgets()
            except Unavailable as error:
                self._lose(error)

    async def aknow(self) -> None:
        """The same, awaited."""
        if self.ledger.book is None and not self.away:
            await asyncio.to_thread(self.know)

    def reserve(self, call_id: str, who: Mapping[str, str], amounts: Amounts, enforce: bool | None) -> Hold:
        """Hold an estimate.

        Raises:
            Refused: a budget has no room.
            Away: the ledger is away, and the call is not let through without it.
        """
        if not self.away:
            with self._asking(Bill(Hold(call_id, amounts), who, None, None), owed=False):
                return self._learned(who, self.ledger.reserve(call_id, who, amounts, HOLD_S, enforce=enforce))
            return self._in_doubt(call_id, who, amounts, enforce)
        return self._locally(call_id, who, amounts, enforce)

    async def areserve(self, call_id: str, who: Mapping[str, str], amounts: Amounts, enforce: bool | None) -> Hold:
        """The same, awaited."""
        if not self.away:
            with self._asking(Bill(Hold(call_id, amounts), who, None, None), owed=False):
                return self._learned(who, await self.ledger.areserve(call_id, who, amounts, HOLD_S, enforce=enforce))
            return self._in_doubt(call_id, who, amounts, enforce)
        return self._locally(call_id, who, amounts, enforce)

    def settle(self, hold: Hold, who: Mapping[str, str], amounts: Amounts | None) -> None:
        """Settle a call, now or when the ledger is back; with no amounts, give all back."""
        bill = self._take_back(hold, who, amounts)
        if bill is not None:
            with self._asking(bill):
                self._pay(bill)

    async def asettle(self, hold: Hold, who: Mapping[str, str], amounts: Amounts | None) -> None:
        """The same, awaited."""
        bill = self._take_back(hold, who, amounts)
        if bill is not None:
            with self._asking(bill):
                if amounts is None:
                    await self.ledger.arelease(hold.call_id)
                else:
                    await self.ledger.asettle(hold if hold.claims else hold.call_id, amounts, who)

    @contextmanager
    def _asking(self, bill: Bill, *, owed: bool = True) -> Iterator[None]:
        """Around a question to the ledger, which may have been done though no answer came.

        Args:
            bill: what is settled at once if the caller is cancelled or interrupted.
            owed: and when the ledger is back, if it does not answer.
        """
        try:
            yield
        except Unavailable as error:
            if owed:
                self._owe(bill)
            self._lose(error)
        except LedgerError:
            raise
        except BaseException:
            self._afterwards(bill)
            raise

    def _learned(self, who: Mapping[str, str], hold: Hold) -> Hold:
        with self._lock:
            self._allowance.learn(tuple(who.values()), hold)
        return hold

    def _afterwards(self, bill: Bill) -> None:
        """Settle what was interrupted, on a thread of its own: under one call id it is done once."""

        def pay() -> None:
            with self._asking(bill):
                self._pay(bill)

        threading.Thread(target=pay, name="spanfuse-ledger-once", daemon=True).start()

    def _pay(self, bill: Bill) -> None:
        hold, who, amounts, doubted_s = bill
        if amounts is None:
            self.ledger.release(hold.call_id)
        elif doubted_s is not None and time.monotonic() - doubted_s > REMEMBERED_S:
            try:
                self.ledger.settle(hold.call_id, amounts)
            except UnknownCall:
                self._too_late += 1
        else:
            self.ledger.settle(hold if hold.claims else hold.call_id, amounts, who)

    def _in_doubt(self, call_id: str, who: Mapping[str, str], amounts: Amounts, enforce: bool | None) -> Hold:
        """The same, where the ledger may have held it: a call that is refused here is given back there."""
        try:
            return self._locally(call_id, who, amounts, enforce)
        except Away:
            with self._lock:
                self._bills.add(Bill(Hold(call_id, amounts), who, None, None))
            raise

    def _locally(self, call_id: str, who: Mapping[str, str], amounts: Amounts, enforce: bool | None) -> Hold:
        """Let a call through within the allowance."""
        book, claims = self.ledger.book, self.ledger.claims(who)
        if book is None:
            if enforce is not False:
                raise Away(self.away)
        elif enforce is not False:
            held = tuple(c for c in claims if c.budget.mode == "block" and (enforce or book.enforces(c.budget)))
            closed = next((c for c in held if c.budget.on_unavailable == "closed"), None)
            if closed is not None:
                named = Refusal(
                    closed.scope, closed.budget.name, closed.budget.unit, 0, 0, 0, amounts[closed.unit], None
                )
                raise Away(self.away, named)
            with self._lock:
                refusal = self._allowance.take(held, amounts)
            if refusal is not None:
                raise Away(self.away, refusal)
        return self.unasked(call_id, who, amounts)

    def unasked(self, call_id: str, who: Mapping[str, str], amounts: Amounts) -> Hold:
        """Admit a call without the ledger; it is told of it when it is back."""
        hold = Hold(call_id, amounts, self.ledger.claims(who), "local")
        with self._lock:
            self._local[call_id] = hold, who
        return hold

    def _take_back(self, hold: Hold, who: Mapping[str, str], amounts: Amounts | None) -> Bill | None:
        """The bill of a call, None where there is nothing to settle now: it waits, or no budget holds."""
        if hold.state == "held" and not hold.claims:
            return None
        bill = Bill(hold, who, amounts, None)
        with self._lock:
            self._local.pop(hold.call_id, None)
            if not self.away:
                return bill
            if hold.state == "local":
                self._allowance.change(hold.claims, hold.amounts, -1)
                self._allowance.change(hold.claims, amounts or Amounts(0, 0, 0), 1)
            self._bills.add(bill)
        return None

    def _owe(self, bill: Bill) -> None:
        with self._lock:
            self._bills.add(bill.doubted())

    def _lose(self, error: Unavailable) -> None:
        """The ledger is away: ask no more until a thread of its own has found it again."""
        with self._lock:
            if self.away:
                return
            self.away = f"the ledger cannot be reached ({error})"
            self._allowance.begin()
            self._closing = threading.Event()
            threading.Thread(target=self._try, args=(self._closing,), name="spanfuse-ledger", daemon=True).start()
        log.warning("%s: calls are paid from a local allowance until it is back", self.away)

    def _try(self, closing: threading.Event) -> None:
        pause_s = FIRST_TRY_S
        while not closing.wait(pause_s):
            try:
                self._catch_up()
            except Unavailable:
                pause_s = min(pause_s * 2, LAST_TRY_S)
            except Exception:
                log.warning("settling with the ledger failed; it is tried again", exc_info=True)
                pause_s = LAST_TRY_S
            else:
                log.warning("the ledger is back, and all is settled")
                return

    def _catch_up(self) -> None:
        """Tell the ledger everything that happened without it, then use it again.

        Raises:
            Unavailable: it is still away.
        """
        self.ledger.budgets()
        with self._lock:
            under_way = list(self._local.values())
        for hold, who in under_way:
            if hold.claims == self.ledger.claims(
                who
            ):  # not if a period has ended: it is charged to the one it began in
                self.ledger.reserve(hold.call_id, who, hold.amounts, HOLD_S, enforce=False)
        while True:
            with self._lock:
                bill = self._bills.first()
                if bill is None:
                    self.away = ""
                    return
            try:
                self._pay(bill)
            except Unavailable:
                with self._lock:
                    self._bills.doubt(bill)
                raise
            with self._lock:
                self._bills.done(bill)

    def close(self) -> None:
        """Settle what can be settled now, and try no more until it is used again."""
        self._closing.set()
        if self.away and self._bills:
            try:
                self._catch_up()
            except LedgerError:
                log.warning("%d settlements did not reach the ledger; what is held for them expires", len(self._bills))
        self.away = ""
        if self._owned:
            self.ledger.close()


def opened(ledger: Ledger | str) -> Purse:
    """A purse on a ledger, or on that of an address; see `spanfuse.ledger.connect`."""
    return Purse(connect(ledger), owned=True) if isinstance(ledger, str) else Purse(ledger)


def _settle_last(purse: weakref.ref[Purse]) -> None:
    """At the end of the process."""
    found = purse()
    if found is not None:
        found.close()
