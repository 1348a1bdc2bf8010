"""What a ledger answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from spanfuse_schemas.budget import Unit, dollars
from spanfuse_schemas.periods import FOREVER_NS

if TYPE_CHECKING:
    from spanfuse.ledger.amounts import Amounts
    from spanfuse_schemas.budget import Budget
    from spanfuse_schemas.periods import Period

HoldState = Literal["held", "settled", "local"]


class Claim(NamedTuple):
    """What a call claims of one account."""

    scope: str
    """Whose, such as `user:u-7`."""
    budget: Budget
    """Its budget."""
    period: Period
    """The period at the time of the claim; what is settled later counts there."""
    unit: int
    """Which of the `Amounts` is claimed."""
    account: str
    """Name of the account: that of `Share.key`."""
    text: str
    """The claim as the ledger reads it, without the amount."""


class Room(NamedTuple):
    """An account at the moment of a claim, in its unit."""

    spent: int
    held: int
    limit: int
    """With what operators set or added."""

    @property
    def left(self) -> int:
        """What may still be claimed; negative where a limit was lowered, or a call cost more than its estimate."""
        return self.limit - self.spent - self.held


@dataclass(frozen=True, slots=True)
class Refusal:
    """The tightest of the budgets that have no room for a call."""

    scope: str
    """Whose, such as `user:u-7`."""
    budget: str
    """Name of the budget."""
    unit: Unit
    spent: int
    """Settled in this period: nano-dollars, tokens or calls."""
    held: int
    """Reserved for calls under way."""
    limit: int
    """With what operators set or added."""
    asked: int
    """Estimate of the call that was refused."""
    until_ns: int | None
    """End of the period, nanoseconds since the Unix epoch; None: the budget is for good."""

    @property
    def remaining(self) -> int:
        """What may still be claimed, never negative."""
        return max(0, self.limit - self.spent - self.held)

    def text(self) -> str:
        """In one sentence, with every number."""
        say = self.say
        held = f" and {say(self.held)} held for calls under way" if self.held else ""
        return (
            f"budget {self.budget} of {self.scope} has {say(self.remaining)} left of {say(self.limit)} "
            f"({say(self.spent)} spent{held}), the call may take {say(self.asked)}"
        )

    def say(self, amount: int) -> str:
        """An amount with its unit."""
        return dollars(amount) if self.unit == "usd" else f"{amount:,} {self.unit}"


class Hold(NamedTuple):
    """A call that was admitted."""

    call_id: str
    amounts: Amounts
    """What was reserved in each unit."""
    claims: tuple[Claim, ...] = ()
    """On which accounts; none: no strict budget holds for the call."""
    state: HoldState = "held"
    """`settled`: the call of this id has been paid already; `local`: admitted while the ledger was away."""
    said: str = ""
    """The accounts just before, as the ledger tells them."""
    observed: Refusal | None = None
    """What would have refused it, were it enforced."""

    @property
    def rooms(self) -> tuple[Room, ...]:
        """The accounts just before, in the order of `claims`; empty for a call id that was reserved before."""
        return rooms_of(self.said)


def rooms_of(said: str) -> tuple[Room, ...]:
    """Accounts as a ledger tells them: spent, held and limit of each in turn."""
    numbers = [int(text) for text in said.split()]
    return tuple(Room(*numbers[i : i + 3]) for i in range(0, len(numbers), 3))


@dataclass(frozen=True, slots=True)
class Account:
    """An account as it stands, or for `rebuild` as it should."""

    account: str
    scope: str
    budget: str
    unit: Unit
    spent: int
    period_start_ns: int = 0
    period_end_ns: int = FOREVER_NS
    held: int = 0
    limit: int = 0
    """With what operators set or added; 0 where the budget is no longer defined."""
    extra: int = 0
    """What operators added, contained in `limit`."""

    @property
    def remaining(self) -> int:
        """What may still be claimed; negative where more was spent or held than the limit."""
        return self.limit - self.spent - self.held


class Settled(NamedTuple):
    """What became of a settlement."""

    charged: bool
    """False: the call had been settled before, and the first settlement stands."""
    was: str
    """State of the call before: `held`, `expired`, `released`, `settled`, or `none` where nothing was reserved."""
