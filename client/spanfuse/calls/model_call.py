"""Around one model call: what may be refused before it, what is counted and learned after it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spanfuse.calls.meter import Meter
from spanfuse.context import NOBODY, Identity, call
from spanfuse.decisions.verdict import ALLOWED, Verdict
from spanfuse.names import legible

if TYPE_CHECKING:
    from spanfuse.calls.reservation import Reservation
    from spanfuse.guard import Guard
    from spanfuse.ledger.amounts import Amounts
    from spanfuse.reading.answers import Answer
    from spanfuse.reading.gathered import Gathered


class Asked(NamedTuple):
    """What a model is asked; as the arguments of `Guard.call`."""

    model: str = ""
    messages: Any = None
    prompt: Any = None
    system: Any = None
    tools: Any = None
    max_output_tokens: int | None = None
    provider: str = ""
    operation: str = "chat"
    cost_usd: float | None = None

    def listed(self) -> list[Any] | None:
        """The messages as they are now, since the agent goes on with its history; None: they are not shown, or no list."""
        said = self.prompt if self.messages is None else self.messages
        if isinstance(said, str):
            return [{"role": "user", "content": said}]
        return list(said) if isinstance(said, Sequence) else None


class ModelCall:
    """One call: with `with` or `async with`, or with `begin` and `end` where callbacks tell of before and after. Made by
    `Guard.call`. Used again after its end it is another call, of the same question.

    A call inside the block of another of the same Guard is the same call, seen by two integrations: it does nothing. Once it
    was made, what follows in that block is no longer the same call.

    Where the call ends without `settle` or `answered`, and without an error, what was seen of the answer is charged, else the
    whole estimate. After an error what was seen is charged, else nothing; a call that was cancelled is charged its input at
    least.

    Attributes:
        asked: what the model is asked.
        messages: the messages as they were when it was admitted; None: not shown.
        call_id: names the call in the ledger.
        who: whose call it is; known from `begin` on.
        verdict: what `Guard.check` answered; `would_block` is also set where a cap or budget would have refused, were it
            enforced.
        nudge: text to add to the conversation, once per decision and session; empty for none.
        answer: what was answered; None: unknown.
        error: how it failed; None: it did not.
        began_ns: when it was admitted, nanoseconds since the Unix epoch; 0: not yet.
        ended_ns: when it ended; 0: not yet.
        cost_nano_usd: what it cost, nano-dollars; known at the end.
        spent: what the session has used with this call; known at the end.
    """

    def __init__(self, guard: Guard, names: Mapping[str, object], asked: Asked, call_id: str | None) -> None:
        self.guard, self._admission = guard, guard.admission
        self.names = names
        self.asked = asked
        self.call_id = legible(call_id) or os.urandom(16).hex()
        self._anew()

    def renew(self) -> None:
        """Be another call, under another id."""
        self.call_id = os.urandom(16).hex()
        self._anew()

    def _anew(self) -> None:
        asked, guard = self.asked, self.guard
        self.messages: list[Any] | None = None
        self.who: Identity = NOBODY
        self.verdict: Verdict = ALLOWED
        self.nudge = ""
        self.answer: Answer | None = None
        self.error: BaseException | None = None
        self.began_ns = self.ended_ns = self.cost_nano_usd = 0
        self.meter = Meter(asked.provider, asked.model, guard.pricing, guard.failed)
        self.reservation: Reservation | None = None
        self.outer: ModelCall | None = None
        """The call that it is a part of."""
        self.made_inside = False
        """A part of it was made, which was this call."""
        self.counted = False
        """It is admitted, and no part of another call."""
        self.held = 0
        """What the caps of its session hold for it, nano-dollars."""
        self._gathered: Gathered | None = None
        self.scope = call()
        self.due: Amounts | None = None
        self._token: Token[ModelCall | None] | None = None

    @property
    def estimate(self) -> Amounts:
        """What is held: nano-dollars, tokens, steps; of money and tokens only where a budget asks for it."""
        return self.meter.estimate

    def answered(self, response: Any) -> None:
        """Say what came back: a response of a provider, a message, or a text. It is read for its usage, and for what the model
        did."""
        try:
            from spanfuse.reading import answers

            self._learn(answers.read(response))
        except Exception:
            self.guard.failed()

    def chunk(self, piece: Any) -> None:
        """Add a piece of a stream, as the provider's client gives it."""
        try:
            if self._gathered is None:
                from spanfuse.reading.gathered import Gathered

                self._gathered = Gathered()
            self._gathered.add(piece)
        except Exception:
            self.guard.failed()

    def settle(
        self,
        *,
        cost_usd: float | None = None,
        tokens: int | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
    ) -> None:
        """Say what the call took; the last word before its end is charged. No I/O, and never an error: what is no amount is
        counted, and the estimate stands in its place.

        Args:
            cost_usd: its cost, USD; default: from the tokens and the price of its model.
            tokens: input and output together, where they are not known apart.
            input_tokens: input tokens, those of the cache included.
            output_tokens: output tokens, with those of reasoning.
        """
        try:
            self.meter.say(cost_usd, tokens, input_tokens, output_tokens)
        except Exception:
            self.guard.failed()

    def seen(self, text: Any) -> None:
        """Add a piece of the answer that is no piece of a provider's stream: a text, or a message."""
        try:
            self.meter.see(text)
        except Exception:
            self.guard.failed()

    def begin(self) -> None:
        """Ask whether the call may be made, and hold what it may take.

        Raises:
            Blocked: it is refused; `OverBudget` where a strict budget has no room.
        """
        if not self._admission.enter(self):
            return
        with self._admission.admitting(self):
            with self.scope:
                self.verdict = self.guard.check(messages=self.asked.messages, prompt=self.asked.prompt)
            reservation = self._admission.count(self)
            if reservation is not None:
                self._admission.observed(self, reservation.hold(self.guess))
        self._admission.begun(self)

    async def abegin(self) -> None:
        """The same, without blocking the event loop."""
        if not self._admission.enter(self):
            return
        with self._admission.admitting(self):
            with self.scope:
                self.verdict = await self.guard.acheck(messages=self.asked.messages, prompt=self.asked.prompt)
            reservation = self._admission.count(self)
            if reservation is not None:
                self._admission.observed(self, await reservation.ahold(self.guess))
        self._admission.begun(self)

    def end(self, error: BaseException | None = None) -> None:
        """Settle, and learn from what came back. Never an error; a second end does nothing.

        Args:
            error: how the call failed; None: it did not.
        """
        if self._ended(error):
            try:
                if self.reservation is not None:
                    self.reservation.settle(self.due)
            except Exception:
                self.guard.failed()
            finally:
                self._admission.ended(self)

    async def aend(self, error: BaseException | None = None) -> None:
        """The same, without blocking the event loop."""
        if self._ended(error):
            try:
                if self.reservation is not None:
                    await self.reservation.asettle(self.due)
            except Exception:
                self.guard.failed()
            finally:
                self._admission.ended(self)

    def inside(self) -> None:
        """Make what follows in this context part of this call, until `outside` or its end: for callbacks, between which a
        library may use a client that is guarded as well."""
        if self.counted:
            AT_HAND.set(self)

    def outside(self) -> None:
        """End that."""
        if AT_HAND.get() is self:
            AT_HAND.set(None)

    @contextmanager
    def part(self) -> Iterator[None]:
        """Make what is done inside part of this call, such as a client that is guarded as well. It neither begins nor ends."""
        with self.scope:
            self.inside()
            try:
                yield
            finally:
                self.outside()

    def guess(self) -> Amounts:
        """The estimate, made now."""
        asked = self.asked
        self.meter.guess(
            (asked.system, asked.messages, asked.prompt, asked.tools), asked.max_output_tokens, asked.cost_usd
        )
        return self.meter.estimate

    def _learn(self, answer: Answer | None) -> None:
        if answer is not None:
            self.answer = answer
            if answer.output_tokens is None and answer.reply:  # a stream that told no usage, or was left early
                if not self.estimate.tokens:
                    self.guess()
                self.meter.see(answer.reply)
            self.meter.answered(answer)

    def _ended(self, error: BaseException | None) -> bool:
        """Whether it ends now, and was not over or never begun."""
        if not self.counted or self.ended_ns:
            if self.outer is not None and error is None:
                self.outer.made_inside = True
            return False
        self.error, self.ended_ns = error, self.guard.now_ns()
        try:
            if self._gathered is not None and self.answer is None:
                self._learn(self._gathered.answer())
            self.due = self.meter.due(error)
        except Exception:
            self.guard.failed()
        return True

    def __enter__(self) -> ModelCall:
        self.begin()
        self._go_in()
        return self

    async def __aenter__(self) -> ModelCall:
        await self.abegin()
        self._go_in()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._come_out()
        self.end(error)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._come_out()
        await self.aend(error)

    def _go_in(self) -> None:
        if self.counted:
            self.scope.__enter__()
            self._token = AT_HAND.set(self)
            self.guard.tell("entered", self)

    def _come_out(self) -> None:
        if self._token is not None:
            self.guard.tell("left", self)
            with suppress(ValueError):  # left in another context than it began in; there it says nothing any more
                AT_HAND.reset(self._token)
            self._token = None
            self.scope.__exit__(None, None, None)


AT_HAND: Final[ContextVar[ModelCall | None]] = ContextVar("spanfuse_model_call", default=None)
"""The call whose block this is."""
