"""Around one model call: its estimate is held on all strict budgets before it, what it took is settled after it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from spanfuse import context
from spanfuse.context import IDENTITY, Identity, call
from spanfuse.estimate import OUTPUT_TOKENS, Tokens, amounts_of, tokens_of, whole_tokens
from spanfuse.ledger.amounts import Amounts, nano
from spanfuse.ledger.errors import InvalidAmount, Refused
from spanfuse.ledger.purse import Away
from spanfuse.ledger.records import Hold, Refusal
from spanfuse.over_budget import OverBudget, over_budget
from spanfuse.table import SCOPES
from spanfuse.verdict import ALLOWED, Verdict

if TYPE_CHECKING:
    from spanfuse.guard import Guard


class Spending:
    """One call, to be used once with `with` or `async with`. Made by `Guard.spend`.

    Where the block ends without `settle`, and without an error, what was seen of the answer is charged, else the whole
    estimate. After an error what was seen is charged, else nothing; a call that was cancelled is charged its input at least.

    Attributes:
        call_id: names the call in the ledger.
        estimate: what is held: nano-dollars, tokens, steps.
        verdict: what `Guard.check` answered; `would_block` is also set where a budget would have refused, were it enforced.
    """

    def __init__(
        self,
        guard: Guard,
        names: Mapping[str, object],
        asked: Mapping[str, Any],
        call_id: str | None,
    ) -> None:
        self._guard, self._names, self._asked = guard, names, asked
        self.call_id = call_id or uuid.uuid4().hex
        self.estimate = Amounts()
        self.verdict: Verdict = ALLOWED
        self._hold: Hold | None = None
        self._who: dict[str, str] = {}
        self._tokens = Tokens(0, 0)
        self._actual: Amounts | None = None
        self._seen = 0
        self._call: call | None = None

    def settle(
        self,
        *,
        cost_usd: float | None = None,
        tokens: int | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
    ) -> None:
        """Say what the call took; the last word before the end of the block is charged. No I/O, and never an error: what is no
        amount is counted, and the estimate stands in its place.

        Args:
            cost_usd: its cost, USD; default: from the tokens and the price of its model.
            tokens: input and output together, where they are not known apart.
            input_tokens: input tokens, those of the cache included.
            output_tokens: output tokens, with those of reasoning.
        """
        try:
            self._actual = self._taken(cost_usd, tokens, input_tokens, output_tokens)
        except Exception:
            self._guard._failed()

    def seen(self, text: Any) -> None:
        """Add a piece of the answer, as of a stream that may end without telling its usage: a text, or a message."""
        try:
            self._seen += tokens_of(text)
        except Exception:
            self._guard._failed()

    def _taken(self, cost_usd: float | None, total: Any, sent: Any, brought: Any) -> Amounts:
        guess = self._tokens
        if whole_tokens(total) is not None and sent is None and brought is None:
            sent = min(guess.input, total)
            brought = total - sent
        told = any(value is not None for value in (total, sent, brought))
        if not told and cost_usd is None:
            return self._so_far()
        tokens = Tokens(
            *(
                found if (found := whole_tokens(value)) is not None else default
                for value, default in ((sent, guess.input), (brought, self._seen or guess.output))
            )
        )
        priced = self._priced(tokens)
        if cost_usd is None:
            return priced
        try:
            return priced._replace(usd=nano(cost_usd))
        except InvalidAmount:
            self._guard._failed()
            return priced if told else self.estimate

    def _so_far(self) -> Amounts:
        return self._priced(Tokens(self._tokens.input, self._seen)) if self._seen else self.estimate

    def _priced(self, tokens: Tokens) -> Amounts:
        book = self._guard._purse.ledger.book if self._guard._purse else None
        return amounts_of(self._asked["model"], tokens, self._guard._price, book.definitions if book else None)

    def _begin(self) -> bool:
        """Check; whether there is a ledger to reserve from."""
        self._call = call(_overlaid(self._names) if self._names else None)
        self._call.__enter__()
        self.verdict = self._guard.check(messages=self._asked["messages"], prompt=self._asked["prompt"])
        if self._guard._purse is None or self._guard.disabled:
            return False
        try:
            self._who = _whose(IDENTITY.get())
        except Exception:
            self._guard._failed()
            return False
        return True

    def _estimate(self) -> None:
        asked = self._asked
        most = whole_tokens(asked["max_output_tokens"])
        self._tokens = Tokens(self._size(), OUTPUT_TOKENS if most is None else most)
        self.estimate = self._priced(self._tokens)
        if asked["cost_usd"] is not None:
            try:
                self.estimate = self.estimate._replace(usd=nano(asked["cost_usd"]))
            except InvalidAmount:
                self._guard._failed()

    def _size(self) -> int:
        """Tokens of the input; of one that cannot be read as many as of an answer, so that it is not free."""
        try:
            return tokens_of((self._asked["messages"], self._asked["prompt"], self._asked["tools"]))
        except Exception:
            self._guard._failed()
            return OUTPUT_TOKENS

    def __enter__(self) -> Spending:
        try:
            if self._begin():
                purse = self._guard._purse
                assert purse is not None
                try:
                    purse.know()
                    self._estimate()
                    self._admitted(purse.reserve(self.call_id, self._who, self.estimate, self._enforced()))
                except Exception as error:
                    self._refused(error)
        except BaseException:
            self._leave()
            raise
        return self

    async def __aenter__(self) -> Spending:
        try:
            if self._begin():
                purse = self._guard._purse
                assert purse is not None
                try:
                    await purse.aknow()
                    self._estimate()
                    self._admitted(await purse.areserve(self.call_id, self._who, self.estimate, self._enforced()))
                except Exception as error:
                    self._refused(error)
        except BaseException:
            self._leave()
            raise
        return self

    def _admitted(self, hold: Hold) -> None:
        self._hold = hold
        if hold.observed is not None:
            decision = over_budget(hold.observed).decision
            self._guard._counters.add("would_block", rule=decision.rule)
            self.verdict = Verdict(would_block=True, nudge=self.verdict.nudge, decision=decision)

    def _enforced(self) -> bool | None:
        """Whether budgets are enforced; None: as they say themselves."""
        return None if self._guard.mode is None else self._guard.mode == "enforce"

    def _refuse(self, refusal: OverBudget) -> NoReturn:
        self._guard._counters.add("blocked", rule=refusal.rule)
        raise refusal

    def _refused(self, error: Exception) -> None:
        """Raise the refusal; whatever else went wrong lets the call pass, counted."""
        if isinstance(error, Refused):
            self._refuse(over_budget(error.refusal))
        elif isinstance(error, Away):
            self._without_ledger(error)
        else:
            self._guard._failed()

    def _without_ledger(self, error: Away) -> None:
        purse, refusal = self._guard._purse, error.refusal
        assert purse is not None
        if refusal is None:  # which budgets there are is not known: the Guard's own `on_unavailable` decides
            key = self._guard._fail_mode.closed(Identity(**self._who))
            if key is None:
                self._hold = purse.unasked(self.call_id, self._who, self.estimate)
                return
            refusal = Refusal(key, "", "usd", 0, 0, 0, self.estimate.usd, None)
        self._refuse(over_budget(refusal, away=str(error)))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._leave()
        try:
            if self._hold is not None and self._guard._purse is not None:
                self._guard._purse.settle(self._hold, self._who, self._due(error))
        except Exception:
            self._guard._failed()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._leave()
        try:
            if self._hold is not None and self._guard._purse is not None:
                await self._guard._purse.asettle(self._hold, self._who, self._due(error))
        except Exception:
            self._guard._failed()

    def _due(self, error: BaseException | None) -> Amounts | None:
        """What is charged; None: nothing, the call was not made."""
        if self._actual is not None:
            return self._actual
        if error is None or self._seen:
            return self._so_far()
        if isinstance(error, Exception):
            return None
        return self._priced(Tokens(self._tokens.input, 0))

    def _leave(self) -> None:
        if self._call is not None:
            self._call.__exit__(None, None, None)
            self._call = None


def _overlaid(names: Mapping[str, object]) -> Identity:
    """The identity at hand with the names that were given."""
    with context.session(**names) as identity:
        return identity


def _whose(who: Identity) -> dict[str, str]:
    """Kind → name of a call, as `Guard.check` sees it."""
    trace = who.trace or context.trace_source()
    session = who.session or (f"trace:{trace}" if trace else None)
    found = {"session": session, "trace": trace, "agent": who.agent, "user": who.user, "team": who.team}
    return {kind: name for kind in SCOPES if (name := found[kind])}
