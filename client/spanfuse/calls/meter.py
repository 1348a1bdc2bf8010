"""The meter of a model call: what it may take, before it is made, and what it took, in tokens and money."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spanfuse.calls.estimate import OUTPUT_TOKENS, Tokens, tokens_of, whole_tokens

if TYPE_CHECKING:
    from spanfuse.calls.pricing import Pricing
    from spanfuse.ledger.amounts import Amounts
    from spanfuse.reading.answers import Answer


class Meter:
    """Of one call.

    Args:
        provider: who is asked; empty: unknown.
        model: the model, by whose price it costs.
        pricing: the prices.
        failed: is told of what is no amount; the estimate then stands in its place.
    """

    def __init__(self, provider: str, model: str, pricing: Pricing, failed: Callable[[], object]) -> None:
        self._provider, self._model, self._pricing, self._failed = provider, model, pricing, failed
        self._guess = Tokens(0, 0)
        self._estimate: Amounts | None = None
        self._said: Amounts | None = None
        self._seen = 0
        self.tokens: Tokens | None = None
        """What was said of the tokens; None: nothing."""

    @property
    def estimate(self) -> Amounts:
        """What it may take; zeros before it was estimated."""
        from spanfuse.ledger.amounts import Amounts

        return self._estimate or Amounts()

    def guess(self, sent: Any, most: Any, cost_usd: float | None) -> None:
        """Estimate the call.

        Args:
            sent: what is sent, whose size is the estimate of the input.
            most: the most that the model may answer, tokens; None: 4,096.
            cost_usd: the most that the call may cost, USD; None: by price and tokens.
        """
        from spanfuse.ledger.amounts import nano

        limit = whole_tokens(most)
        self._guess = Tokens(self._size(sent), OUTPUT_TOKENS if limit is None else limit)
        self._estimate = self._priced(self._guess)
        if cost_usd is not None:
            try:
                self._estimate = self._estimate._replace(usd=nano(cost_usd))
            except Exception:
                self._failed()

    def _size(self, sent: Any) -> int:
        """Tokens of the input; of one that cannot be read as many as of an answer, so that it is not free."""
        try:
            return tokens_of(sent)
        except Exception:
            self._failed()
            return OUTPUT_TOKENS

    def answered(self, answer: Answer) -> None:
        """Take what an answer says of its usage."""
        if answer.input_tokens is None and answer.output_tokens is None and answer.cost_usd is None:
            return
        self._model = self._model or answer.model
        self.say(
            answer.cost_usd,
            None,
            answer.input_tokens,
            answer.output_tokens,
            (answer.cache_read, answer.cache_write, answer.reasoning),
        )

    def say(
        self, cost_usd: float | None, total: Any, sent: Any, brought: Any, classes: tuple[int, int, int] = (0, 0, 0)
    ) -> None:
        """Take what is said; the last word counts. See `ModelCall.settle`.

        Args:
            classes: tokens read from the cache, written to it, and of reasoning.
        """
        from spanfuse.ledger.amounts import nano
        from spanfuse.ledger.errors import InvalidAmount

        guess = self._guess
        if whole_tokens(total) is not None and sent is None and brought is None:
            sent = min(guess.input, total)
            brought = total - sent
        told = any(value is not None for value in (total, sent, brought))
        if not told and cost_usd is None:
            self._said = self.so_far()
            return
        found = [
            number if (number := whole_tokens(value)) is not None else default
            for value, default in ((sent, guess.input), (brought, self._seen or guess.output))
        ]
        tokens = Tokens(found[0], found[1], *classes)
        self._said = priced = self._priced(tokens)
        self.tokens = tokens if told else None
        if cost_usd is not None:
            try:
                self._said = priced._replace(usd=nano(cost_usd))
            except InvalidAmount:
                self._failed()
                self._said = priced if told else self.estimate

    def see(self, piece: Any) -> None:
        """Count a piece of the answer."""
        self._seen += tokens_of(piece)

    def so_far(self) -> Amounts:
        """What was seen of the answer, else the estimate."""
        return self._priced(Tokens(self._guess.input, self._seen)) if self._seen else self.estimate

    def due(self, error: BaseException | None) -> Amounts | None:
        """What the call is charged; None: nothing, it was not made."""
        if self._said is not None:
            return self._said
        if error is None or self._seen:
            return self.so_far()
        if isinstance(error, Exception):
            return None
        return self._priced(Tokens(self._guess.input, 0))

    def _priced(self, tokens: Tokens) -> Amounts:
        from spanfuse.ledger.amounts import Amounts

        return Amounts(self._pricing.cost(self._provider, self._model, tokens), tokens.total)
