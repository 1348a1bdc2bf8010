"""What is asked of a ledger, in which order, and what its answers mean: the same whether a store is waited for or awaited.

A `Step` yields the operation and arguments of `ledger.lua` or its like, is sent the answer, and returns the result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Final, TypeVar

from spanfuse.ledger.amounts import MAX_TOTAL, Amounts, checked, whole
from spanfuse.ledger.book import KEPT_S, Book, Definitions, claim_text, tightest, version_of
from spanfuse.ledger.errors import InvalidAmount, LedgerError, Refused, Unavailable, UnknownCall
from spanfuse.ledger.records import Account, Claim, Hold, Settled, rooms_of
from spanfuse_schemas.budget import BudgetOrder, Share
from spanfuse_schemas.periods import FOREVER_NS, Period

T = TypeVar("T")
Step = Generator[tuple[str, ...], str, T]

HOLD_S: Final = 600.0
"""How long money is held for a call, seconds, by default: as long as the clients of OpenAI and Anthropic wait for an answer."""
MAX_HOLD_S: Final = 24 * 3600.0
"""Longest time that money can be held, seconds."""
REFRESH_S: Final = 5.0
"""Age at which definitions are read again where no strict budget holds for a call, seconds; elsewhere every answer says whether
they are the newest."""
MAX_CALL_ID: Final = 256
"""Longest call or order id, characters."""

_TRIES: Final = 1000
"""Answers that ask for another try: each time other definitions, another period, or 100 expired holds less."""
_MS: Final = 1_000_000


class Steps:
    """What one process knows of a ledger: its definitions, and how far its clock is ahead of ours.

    Args:
        now_ns: wall clock, nanoseconds since the Unix epoch.
    """

    def __init__(self, now_ns: Callable[[], int] = time.time_ns) -> None:
        self.book: Book | None = None
        self._now_ns = now_ns
        self._ahead_ns = 0
        self._read_at_s = float("-inf")

    def server_ns(self) -> int:
        """The server's clock as far as it is known here, nanoseconds since the Unix epoch. The server checks periods itself."""
        return self._now_ns() + self._ahead_ns

    def read(self) -> Step[Book]:
        """Read the definitions."""
        _, now_ms, text = (yield ("read",)).split(" ", 2)
        self._set_clock(now_ms)
        if self.book is None or self.book.version != version_of(text):
            self.book = Book(text)
        self._read_at_s = time.monotonic()
        return self.book

    def define(self, definitions: Definitions) -> Step[None]:
        text = definitions.to_json().decode()
        yield "define", version_of(text), text
        yield from self.read()

    def reserve(
        self, call_id: str, identities: Mapping[str, str], amounts: Amounts, hold_s: float, enforce: bool | None
    ) -> Step[Hold]:
        checked(amounts)
        _id(call_id)
        if not 0 < hold_s <= MAX_HOLD_S:
            raise InvalidAmount(f"money is held for up to {MAX_HOLD_S:g} s, not {hold_s}")
        for _ in range(_TRIES):
            book = self.book or (yield from self.read())
            claims = book.claims(identities, self.server_ns())
            if not claims:
                if time.monotonic() - self._read_at_s <= REFRESH_S:
                    return Hold(call_id, amounts)
                yield from self.read()
                if self.book is book:
                    return Hold(call_id, amounts)
                continue
            asked = [c.text for c in claims] if enforce is None else [_text(c, enforce) for c in claims]
            answer = yield ("reserve", book.version, call_id, str(int(hold_s * 1000)), *map(str, amounts), *asked)
            word, _, said = answer.partition(" ")
            if word == "held":
                return Hold(call_id, amounts, claims, "held", said)
            if word == "over":
                observed = tightest(claims, rooms_of(said), amounts)
                return Hold(call_id, amounts, claims, "held", said, observed)
            if word == "known":
                return Hold(call_id, amounts, claims, "settled" if said == "settled" else "held")
            if word == "refused":
                refusal = tightest(claims, rooms_of(said), amounts, blocking=True)
                assert refusal is not None
                raise Refused(refusal)
            yield from self._catch_up(word, said)
        raise Unavailable("the ledger's definitions or clock change all the time")

    def settle(self, call: Hold | str, amounts: Amounts, identities: Mapping[str, str] | None) -> Step[Settled]:
        checked(amounts)
        call_id, claims = (call, ()) if isinstance(call, str) else (call.call_id, call.claims)
        if not isinstance(call, str) and not claims:
            return Settled(False, "none")
        spent = tuple(str(amount) for amount in amounts)
        answer = (yield ("settle", _id(call_id), *spent)).split(" ")
        if answer == ["unknown"]:
            if identities is not None:
                book = yield from self.read()
                claims = book.claims(identities, self.server_ns())
                if not claims:
                    return Settled(False, "none")
            if not claims:
                raise UnknownCall(f"nothing is known of the call {call_id!r}")
            answer = (yield ("settle", call_id, *spent, *(claim.text for claim in claims))).split(" ")
        return Settled(answer[0] == "settled", answer[1])

    def release(self, call_id: str) -> Step[bool]:
        return (yield ("release", _id(call_id))) == "released"

    def order(self, order: BudgetOrder) -> Step[bool]:
        whole(order.amount, "amount", MAX_TOTAL)
        for _ in range(_TRIES):
            book = yield from self.read()
            claim = self._ordered(book, order)
            until_ns = claim.period.end_ns if order.expires_at_ns is None else order.expires_at_ns
            until_ms = 0 if until_ns >= FOREVER_NS else max(1, until_ns // _MS)  # 0 is for good
            arguments = (_id(order.id), order.action, str(order.amount), str(until_ms), book.version, claim.text)
            word, _, said = (yield ("order", *arguments)).partition(" ")
            if word in ("done", "known"):
                return word == "done"
            yield from self._catch_up(word, said)
        raise Unavailable("the ledger's definitions or clock change all the time")

    def rebuild(self, accounts: Iterable[Account]) -> Step[None]:
        totals = [(str(whole(a.spent, a.account)), _rebuilt(a)) for a in accounts]
        for begin in range(0, len(totals), 200):
            yield ("rebuild", *(text for total in totals[begin : begin + 200] for text in total))

    def sweep(self) -> Step[None]:
        """Let all holds that have expired give their money back."""
        while (yield ("sweep",)) == "swept 100":
            pass

    def _ordered(self, book: Book, order: BudgetOrder) -> Claim:
        budget = book.by_name.get(order.budget)
        kind, _, name = order.scope.partition(":")
        if budget is None or budget.scope != kind or not name:
            raise LedgerError(f"no budget {order.budget!r} is defined for {order.scope!r}")
        return book.claim(Share(budget, order.scope), self.server_ns())

    def _catch_up(self, word: str, said: str) -> Step[None]:
        """After an answer that asks for another try."""
        if word == "stale":
            yield from self.read()
        elif word == "period":
            self._set_clock(said)
        elif word != "again":
            raise LedgerError(f"the ledger answered {word!r}")

    def _set_clock(self, now_ms: str) -> None:
        self._ahead_ns = int(now_ms) * _MS - self._now_ns()


def _id(text: str) -> str:
    if not isinstance(text, str) or not 0 < len(text) <= MAX_CALL_ID:
        raise LedgerError(f"an id is a text of 1 to {MAX_CALL_ID} characters")
    return text


def _text(claim: Claim, enforce: bool) -> str:
    """A claim, to be enforced or only counted, whatever the definitions say."""
    unit, limit, _, rest = claim.text.split(" ", 3)
    return f"{unit} {limit} {enforce and claim.budget.mode == 'block':d} {rest}"


def _rebuilt(account: Account) -> str:
    period = Period(account.period_start_ns, account.period_end_ns)
    total = period.end_ns >= FOREVER_NS
    kept_s = 0 if total and account.scope.partition(":")[0] not in ("session", "trace") else KEPT_S
    return claim_text(account.unit, 0, False, period, kept_s, account.budget, account.scope)
