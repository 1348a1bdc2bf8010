"""What a Guard does beyond answering checks: it caps sessions and cancels them, warns, and tells others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from spanfuse import context
from spanfuse.calls.caps import NONE, Caps, Given, Spent
from spanfuse.context import Identity, Session
from spanfuse.decisions.checks import Checks
from spanfuse.steering import progress
from spanfuse.steering.budget_warnings import FRACTIONS, BudgetWarning, BudgetWarnings
from spanfuse.steering.cancel import Cancels, CancelToken
from spanfuse.steering.context_pressure import TIERS, ContextPressure, ContextWatch, Window

if TYPE_CHECKING:
    from spanfuse.decisions.availability import OnUnavailable
    from spanfuse.decisions.feed import Feed
    from spanfuse.decisions.judge import Judge, Mode


class Actions(Checks):
    """The part of a Guard that knows its sessions and its listeners.

    Args:
        feed: brings the decisions, of which the listeners are told.
        monotonic: clock that never goes back, seconds; the others are as of `Checks`.
    """

    def __init__(
        self,
        feed: Feed,
        judge: Judge,
        *,
        mode: Mode | None,
        on_unavailable: OnUnavailable | Mapping[str, OnUnavailable],
        disabled: bool,
        now_ns: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        super().__init__(feed, judge, on_unavailable, mode, disabled, now_ns)
        self.caps: Final = Caps(self.now_ns, monotonic)
        self.cancels: Final = Cancels(self.mode, monotonic)
        self._cancelled = self.cancels.held
        self._listeners: list[object] = [self.cancels]
        feed.told = partial(self.tell, "decided")
        feed.governed = lambda notice: self.tell("governed", notice.policy)

    def ruled(self, who: Identity) -> Given:
        """The caps that rules set for a call, beside those that its session was given."""
        return NONE

    def session(
        self,
        session: object = None,
        *,
        agent: object = None,
        user: object = None,
        team: object = None,
        trace: object = None,
        budget_usd: float | None = None,
        max_steps: int | None = None,
        deadline_s: float | None = None,
    ) -> Session:
        """The same as `spanfuse.session`: names the session for all checks and spans inside a `with` block. The caps hold
        for the session's model calls that are made with `call` or an integration of this Guard, those in flight included.

        Args:
            session: id of the session; this and the other names are as of `spanfuse.session`.
            agent: name of the agent.
            user: id of the user.
            team: team that pays.
            trace: trace id.
            budget_usd: no call is let through once this is spent, USD; what is in flight counts by its estimate.
            max_steps: model calls that are let through.
            deadline_s: time from now, or from when the session was first heard of, after which none is, seconds; then its
                `cancel_token` is cancelled, too.

        Raises:
            ValueError: a cap without a session, or one that is negative or no number.
        """
        names = Session(session, agent=agent, user=user, team=team, trace=trace)
        if budget_usd is not None or max_steps is not None or deadline_s is not None:
            self.caps.set(names.named(), budget_usd, max_steps, deadline_s)
            stops = not self.disabled and self.mode != "observe"
            if stops and deadline_s is not None and (at_s := self.caps.spent(names.named()).deadline) is not None:
                self.cancels.deadline(names.named(), at_s)
        return names

    def cancel(self, session: object = None, reason: str = "") -> None:
        """Stop a session in this process; default: the session at hand. Its token is cancelled, its calls are refused, until an
        operator resets it.

        Args:
            reason: why, for people.
        """
        self.cancels.cancel(Session(session).named(), reason)

    def cancel_token(self, session: object = None) -> CancelToken:
        """By what work in progress learns that its session, or the one at hand, is stopped: by a block, a cap, its deadline, or
        `cancel`. One that asks after that is given a token that is cancelled already.

        Raises:
            ValueError: no session is named.
        """
        who = context.whose({"session": session})
        return self.cancels.token(Session(session).named(), who, [entry.decision for entry in self._entries(who)])

    def progress(self, count: int, session: object = None) -> None:
        """Say what the session, or the one at hand, has achieved so far, as a count that only grows: rules on repetition take
        it for proof that the agent gets on. It goes with the spans and calls that begin from then on."""
        try:
            progress.say(Session(session).named(), count)
        except Exception:
            self.failed()

    def on_budget(self, callback: Callable[[BudgetWarning], object], fractions: Iterable[float] = FRACTIONS) -> None:
        """Call a function when of a cap of a session, or of a strict budget, so little is left: once for each fraction, account
        and period, after the call that has used it, in its thread.

        Args:
            fractions: shares of the limit that are left.

        Raises:
            ValueError: a fraction is not between 0 and 1.
        """
        self.listen(BudgetWarnings(callback, fractions, self.caps.spent, self.ruled))

    def on_context(
        self, window: Window, callback: Callable[[ContextPressure], object], at: Mapping[str, float] = TIERS
    ) -> None:
        """Call a function when a conversation comes to another share of the model's context window, in the thread of the call:
        before it, by an estimate, or after it, by what the provider has counted.

        Args:
            window: the window, tokens; by model; or a function of the model.
            at: name of the tier → share from which it begins.

        Raises:
            ValueError: a share is not above 0 and up to 1.
        """
        self.listen(ContextWatch(callback, window, at))

    def spent(self, session: object = None) -> Spent:
        """What a session has used in this process, as far as its calls were made with `call`; default: the session at hand."""
        return self.caps.spent(Session(session).named())

    def listen(self, *listeners: object) -> None:
        """Tell others of calls. Each may have any of these methods, which must be quick; what they raise is counted.

        `began(call)`, `ended(call)`: a model call was admitted, is over; `tool_began(tool)`, `tool_ended(tool)`: the same for a
        tool; `entered(call)`, `left(call)`: the block of a model call is entered, is left, in the context of its code;
        `refused(decision, identity)`: a call was refused; `decided(decision)`: one has arrived; `governed(policy)`: the
        operators have changed the rules; `after_fork()`: this is a forked child, whose locks and threads are the parent's.
        """
        self._listeners += listeners

    def tell(self, event: str, *what: object) -> None:
        """Tell the listeners."""
        for listener in self._listeners:
            hears = getattr(listener, event, None)
            if hears is not None:
                try:
                    hears(*what)
                except Exception:
                    self.failed()
