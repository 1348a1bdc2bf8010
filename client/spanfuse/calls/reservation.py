"""A model call on the ledger's books: its estimate is held on all strict budgets before, what it took settled after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from spanfuse.context import Identity
from spanfuse.decisions.table import SCOPES
from spanfuse.ledger.errors import Away, Refused
from spanfuse.ledger.purse import Purse
from spanfuse.ledger.records import Refusal
from spanfuse.over_budget import over_budget

if TYPE_CHECKING:
    from spanfuse.guard import Guard
    from spanfuse.ledger.amounts import Amounts
    from spanfuse.ledger.records import Claim, Hold, Room
    from spanfuse_schemas import Decision


class Reservation:
    """What one call holds.

    Args:
        guard: whose mode and `on_unavailable` decide.
        purse: pays.
        call_id: names the call in the ledger.
        who: whose call it is.
    """

    def __init__(self, guard: Guard, purse: Purse, call_id: str, who: Identity) -> None:
        self._guard, self._purse, self._call_id, self._identity = guard, purse, call_id, who
        self._who = _scopes(who)
        self._hold: Hold | None = None

    def hold(self, estimate: Callable[[], Amounts]) -> Decision | None:
        """Hold the estimate, which is made with the ledger's prices; the refusal that there would be, were it enforced.

        Raises:
            Blocked: a budget has no room.
        """
        self._purse.know()
        asked = estimate()
        with self._refusing(asked):
            self._hold = self._purse.reserve(self._call_id, self._who, asked, self._enforced())
        return self._observed()

    async def ahold(self, estimate: Callable[[], Amounts]) -> Decision | None:
        """The same, awaited."""
        await self._purse.aknow()
        asked = estimate()
        with self._refusing(asked):
            self._hold = await self._purse.areserve(self._call_id, self._who, asked, self._enforced())
        return self._observed()

    def settle(self, amounts: Amounts | None) -> None:
        """Settle the call; with no amounts, give all back."""
        if self._hold is not None:
            self._purse.settle(self._hold, self._who, amounts)

    async def asettle(self, amounts: Amounts | None) -> None:
        """The same, awaited."""
        if self._hold is not None:
            await self._purse.asettle(self._hold, self._who, amounts)

    def accounts(self) -> list[tuple[Claim, Room]]:
        """The accounts that it holds of, as they were before it; none while the ledger is away."""
        hold = self._hold
        return list(zip(hold.claims, hold.rooms, strict=False)) if hold is not None else []

    def _observed(self) -> Decision | None:
        hold = self._hold
        return over_budget(hold.observed).decision if hold is not None and hold.observed is not None else None

    def _enforced(self) -> bool | None:
        """Whether budgets are enforced; None: as they say themselves."""
        return None if self._guard.mode is None else self._guard.mode == "enforce"

    @contextmanager
    def _refusing(self, asked: Amounts) -> Iterator[None]:
        try:
            yield
        except Refused as error:
            self._refuse(error.refusal)
        except Away as error:
            self._without_ledger(error, asked)

    def _without_ledger(self, error: Away, asked: Amounts) -> None:
        refusal = error.refusal
        if refusal is None:  # which budgets there are is not known: the Guard's own `on_unavailable` decides
            key = self._guard.closed_for(self._identity)
            if key is None:
                self._hold = self._purse.unasked(self._call_id, self._who, asked)
                return
            refusal = Refusal(key, "", "usd", 0, 0, 0, asked.usd, None)
        self._refuse(refusal, str(error))

    def _refuse(self, refusal: Refusal, away: str = "") -> NoReturn:
        refused = over_budget(refusal, away=away)
        self._guard.count("blocked", rule=refused.rule, key=refused.key)
        raise refused from None


def _scopes(who: Identity) -> Mapping[str, str]:
    """Kind → name of a call, as the ledger has them."""
    return {kind: name for kind in SCOPES if (name := getattr(who, kind))}
