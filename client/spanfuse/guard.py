"""The Guard: asked before each call, it refuses those of a session, agent, user or team that is stopped."""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast, overload

from spanfuse import context
from spanfuse.availability import FailMode, OnUnavailable
from spanfuse.blocked import UNAVAILABLE, Blocked
from spanfuse.context import IDENTITY, Identity
from spanfuse.context import session as _session
from spanfuse.counters import Counters, Counts
from spanfuse.feed import Feed, FeedState
from spanfuse.judge import PROBE_LEASE_S, Judge, Mode
from spanfuse.names import PLAIN_CHARS, named
from spanfuse.shown import Shown
from spanfuse.verdict import ALLOWED, Verdict

if TYPE_CHECKING:
    from spanfuse.estimate import Price
    from spanfuse.ledger.ledger import Ledger
    from spanfuse.ledger.purse import Purse
    from spanfuse.spend import Spending
    from spanfuse.subscribers.base import Subscriber
    from spanfuse.table import Entry
    from spanfuse_schemas import Decision

F = TypeVar("F", bound=Callable[..., Any])
GuardState = Literal["disabled"] | FeedState

STALENESS_S: Final = 30.0
"""Silence after which nothing is known any more, seconds: six missed signs of life of the API or the broker."""

log = logging.getLogger("spanfuse")
_guards: weakref.WeakSet[Guard] = weakref.WeakSet()


class Guard:
    """Knows the newest decision of each key, and refuses the calls it applies to.

    It starts by itself with the first check, in a forked child anew. It never raises anything but `Blocked` from `check`,
    does no I/O there, and takes no lock unless a decision applies.

    Args:
        subscriber: where decisions come from: `http://host:8787` (the API), `kafka://host:9092`, or a subscriber; default
            `SPANFUSE_API_URL`, else `http://127.0.0.1:8787`.
        mode: None: each decision says itself whether it is enforced; `observe`: never raise; `enforce`: raise on each
            block. Default `SPANFUSE_MODE`, else None. `SPANFUSE_DISABLED=1` lets everything pass and starts nothing.
        on_unavailable: what becomes of calls before the first catch-up and while stale: `open` (they pass) or `closed`, for
            all or by scope (`{"team": "closed"}`) or key (`{"team:payments": "closed"}`). Known blocks hold all the while.
        staleness_s: silence after which the Guard is stale, seconds.
        probe_lease_s: how long a half-open breaker waits for the outcome of its probe, seconds.
        ledger: where strict budgets are kept, for `spend`: a ledger, or its address (`spanfuse.ledger.connect`); default
            `SPANFUSE_LEDGER`, else none.
        price: model, input tokens, output tokens → USD, to estimate calls with; default the table that the ledger publishes.
        now_ns: wall clock, nanoseconds since the Unix epoch; for tests.
        monotonic: clock that never goes back, seconds; for tests.

    Raises:
        TypeError: if `subscriber` is neither an address nor a subscriber.
        ValueError: for an unknown mode, scope or address.
        ImportError: for Kafka without the extra `kafka`, or a ledger in Redis without the extra `redis`.
    """

    def __init__(
        self,
        subscriber: Subscriber | str | None = None,
        *,
        mode: Mode | None = None,
        on_unavailable: OnUnavailable | Mapping[str, OnUnavailable] = "open",
        staleness_s: float = STALENESS_S,
        probe_lease_s: float = PROBE_LEASE_S,
        ledger: Ledger | str | None = None,
        price: Price | None = None,
        now_ns: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        # Here and not in the subscriber's thread: a fork during an import leaves the child's import lock held for ever.
        import spanfuse.messages  # noqa: F401
        from spanfuse.subscribers.connect import connect

        self.disabled: Final = os.environ.get("SPANFUSE_DISABLED", "").lower() in ("1", "true", "yes", "on")
        self.mode: Final = _mode(mode)
        self._fail_mode = FailMode(on_unavailable)
        self._may_close = self._fail_mode.may_close
        self._now_ns = now_ns
        self._feed = Feed(connect(subscriber), staleness_s, monotonic)
        self._table = self._feed.table
        self._judge = Judge(self.mode, probe_lease_s, now_ns, monotonic)
        self._purse = _purse(ledger or os.environ.get("SPANFUSE_LEDGER"))
        self._price = price
        self._new_counters()
        _guards.add(self)

    def _new_counters(self) -> None:
        self._counters = Counters()
        self._count = self._counters.check

    def check(
        self,
        *,
        session: object = None,
        agent: object = None,
        user: object = None,
        team: object = None,
        trace: object = None,
        messages: Any = None,
        prompt: Any = None,
    ) -> Verdict:
        """Ask whether the next call may be made. Asking changes nothing but counters, and spends the probe of a
        half-open breaker.

        Args:
            session: id of the session; each name that is not given comes from `session(...)` around the call.
            agent: name of the agent.
            user: id of the user.
            team: team that pays.
            trace: trace id, 32 hex digits; default that of the current span, with `spanfuse.otel`. It names the session
                where nothing else does.
            messages: the call's conversation: a list of message dicts in the style of OpenAI, Anthropic or GenAI, or a
                text. Read only while a block is limited to a loop, to tell a call that repeats it from one that leaves it.
            prompt: the call's text, where it has no messages.

        Raises:
            Blocked: the call is refused.
        """
        try:
            self._count()
            if not self._feed.running and not self._begin():
                return ALLOWED
            who = IDENTITY.get()
            # Names are in their one form where `strip` gives the very same text: a call of `named` for each costs too much.
            if session is None or session == "":
                session = who.session
            elif not isinstance(session, str) or session.strip() is not session or len(session) > PLAIN_CHARS:
                session = named(session) or who.session
            if agent is None or agent == "":
                agent = who.agent
            elif not isinstance(agent, str) or agent.strip() is not agent or len(agent) > PLAIN_CHARS:
                agent = named(agent) or who.agent
            if user is None or user == "":
                user = who.user
            elif not isinstance(user, str) or user.strip() is not user or len(user) > PLAIN_CHARS:
                user = named(user) or who.user
            if team is None or team == "":
                team = who.team
            elif not isinstance(team, str) or team.strip() is not team or len(team) > PLAIN_CHARS:
                team = named(team) or who.team
            if trace is None or trace == "":
                trace = who.trace
            elif not isinstance(trace, str):
                trace = str(trace)
            view = self._table.view
            if trace is None and (session is None or view.trace):
                trace = context.trace_source()
            if session is None and trace is not None:
                session = f"trace:{trace}"
            if (
                session in view.session
                or agent in view.agent
                or user in view.user
                or team in view.team
                or trace in view.trace
                or view.everyone
                or self._may_close
            ):
                return self._consider(Identity(session, agent, user, team, trace), messages, prompt)
            return ALLOWED
        except Blocked:
            raise
        except Exception:
            return self._failed()

    def spend(
        self,
        *,
        model: str = "",
        messages: Any = None,
        prompt: Any = None,
        max_output_tokens: int | None = None,
        tools: Any = None,
        cost_usd: float | None = None,
        session: object = None,
        agent: object = None,
        user: object = None,
        team: object = None,
        trace: object = None,
        call_id: str | None = None,
    ) -> Spending:
        """Make one model call inside `with` or `async with`: it is checked, its estimate is held on every strict budget, and
        what it took is settled at the end of the block. In a coroutine use `async with`, which blocks no event loop.

        >>> with guard.spend(model="gpt-4o-mini", messages=messages, max_output_tokens=500) as call:
        ...     answer = client.chat.completions.create(...)
        ...     call.settle(input_tokens=answer.usage.prompt_tokens, output_tokens=answer.usage.completion_tokens)

        Without a ledger it only checks.

        Args:
            model: the model, by whose price the call is estimated.
            messages: as of `check`; their size is the estimate of the input.
            prompt: as of `check`.
            max_output_tokens: the most that the model may answer, tokens; default 4,096.
            tools: definitions of tools that are sent along.
            cost_usd: the most that the call may cost, USD; default: by price and tokens.
            session: this and the other names are as of `check`.
            agent: name of the agent.
            user: id of the user.
            team: team that pays.
            trace: trace id.
            call_id: names the call in the ledger, such as a request id: what is reserved and settled under one id counts once.
                Default: a new one.

        Entering the block raises:
            Blocked: the call is refused; `OverBudget` where a strict budget has no room.
        """
        from spanfuse.spend import Spending

        given = {"session": session, "agent": agent, "user": user, "team": team, "trace": trace}
        asked = {
            "model": model, "messages": messages, "prompt": prompt, "max_output_tokens": max_output_tokens,
            "tools": tools, "cost_usd": cost_usd,
        }  # fmt: skip
        names = {name: value for name, value in given.items() if value is not None}
        return Spending(self, names, asked, call_id)

    def _consider(self, who: Identity, messages: Any, prompt: Any) -> Verdict:
        """The slow path: something is known of this call, or has to be."""
        if self._may_close and not self._feed.available():
            key = self._fail_mode.closed(who)
            if key is not None:
                return self._refuse(self._unavailable(key), enforced=self.mode != "observe")
        entries = self._entries(who)
        if not entries:
            return ALLOWED
        ruling = self._judge.weigh(entries, Shown(messages, prompt), self._feed.stale)
        if ruling.refused is not None:
            self._refuse(ruling.refused.decision, enforced=True)
        return self._answer(ruling.observed, ruling.nudge, probe=ruling.probe)

    def _entries(self, who: Identity) -> list[Entry]:
        view = self._table.view
        found = (
            view.session.get(who.session),
            view.trace.get(who.trace),
            view.agent.get(who.agent),
            view.user.get(who.user),
            view.team.get(who.team),
            view.everyone.get("*"),
        )
        return [entry for entry in found if entry is not None]

    def _answer(self, observed: Entry | None, nudge: Entry | None, *, probe: bool) -> Verdict:
        count = self._counters.add
        if probe:
            count("probes")
        if nudge is not None:
            count("nudged")
        text = nudge.decision.message if nudge is not None else ""
        if observed is not None:
            count("would_block", rule=observed.decision.rule)
            return Verdict(would_block=True, nudge=text, decision=observed.decision)
        return Verdict(nudge=text, decision=nudge.decision) if nudge is not None else ALLOWED

    def _refuse(self, decision: Decision, *, enforced: bool) -> Verdict:
        self._counters.add("blocked" if enforced else "would_block", rule=decision.rule)
        if enforced:
            raise Blocked(decision)
        return Verdict(would_block=True, decision=decision)

    def _unavailable(self, key: str) -> Decision:
        from spanfuse_schemas import Decision, Evidence

        return Decision(
            key=key,
            state="open",
            action="block",
            mode="enforce",
            rule=UNAVAILABLE,
            message=f"control unavailable, {self._feed.trouble}",
            evidence=Evidence(value=self.age_s or 0, threshold=self._feed.staleness_s, unit="s"),
            issued_at_ns=self._now_ns(),
        )

    def _failed(self) -> Verdict:
        counters = self._counters
        if not counters.snapshot().errors:
            log.warning("the guard failed and lets calls pass; this is said once", exc_info=True)
        counters.add("errors")
        return ALLOWED

    def _begin(self) -> bool:
        """Start with the first check of a process; False where there is nothing to ask."""
        if self.disabled:
            return False
        if not self._feed.closed:
            self._feed.start()
        return True

    def start(self) -> None:
        """Start to follow decisions now rather than with the first check. Returns at once; see `wait_ready`."""
        if not self.disabled:
            self._feed.start()

    def wait_ready(self, timeout_s: float = 10.0) -> bool:
        """Wait until all present decisions are known, at most `timeout_s` seconds; whether they are."""
        return not self._begin() or self._feed.wait_ready(timeout_s)

    def close(self) -> None:
        """Stop following. Blocks that are known hold until they expire; `start` begins anew."""
        self._feed.close()
        if self._purse is not None:
            self._purse.close()

    def __enter__(self) -> Guard:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def session(
        self,
        session: object = None,
        *,
        agent: object = None,
        user: object = None,
        team: object = None,
        trace: object = None,
    ) -> _session:
        """The same as `spanfuse.session`: names the session for all checks and spans inside a `with` block."""
        return _session(session, agent=agent, user=user, team=team, trace=trace)

    @overload
    def protect(self, function: F, /) -> F: ...
    @overload
    def protect(
        self, /, *, session: object = None, agent: object = None, user: object = None, team: object = None
    ) -> Callable[[F], F]: ...
    def protect(
        self,
        function: Any = None,
        /,
        *,
        session: object = None,
        agent: object = None,
        user: object = None,
        team: object = None,
    ) -> Any:
        """Decorate a function that makes a model call: it is checked first, and is one call for all checks inside.

        Works for functions, coroutine functions, and generator functions of both kinds (checked when first iterated). The
        function's arguments `messages` and `prompt`, if it has them, are shown to the check. Names given here are as in
        `session(...)`.
        """
        from spanfuse.protect import protected

        given = {"session": session, "agent": agent, "user": user, "team": team}
        names = {name: value for name, value in given.items() if value is not None}
        if function is not None:
            return protected(self, function, names)
        return lambda decorated: protected(self, decorated, names)

    @property
    def state(self) -> GuardState:
        """`disabled`, `new` (no check yet), `connecting`, `ready`, `stale` or `closed`."""
        return "disabled" if self.disabled else self._feed.state

    @property
    def age_s(self) -> float | None:
        """Seconds since the last sign of life of the subscriber's source; None before the first."""
        return self._feed.age_s

    @property
    def counters(self) -> Counts:
        """What was asked and answered in this process."""
        return self._counters.snapshot()

    def decisions(self) -> list[Decision]:
        """The decisions in force as this process knows them."""
        return self._table.decisions()

    def _after_fork(self) -> None:
        self._new_counters()
        self._judge.after_fork()
        self._feed.after_fork()
        if self._purse is not None:
            self._purse.after_fork()


def _mode(mode: Mode | None) -> Mode | None:
    """The mode asked for, else the environment's."""
    if mode in ("observe", "enforce"):
        return mode
    if mode is not None:
        raise ValueError(f"mode is 'observe', 'enforce' or None, not {mode!r}")
    named = os.environ.get("SPANFUSE_MODE", "").lower()
    if named in ("observe", "enforce"):
        return cast("Mode", named)
    if named:
        log.warning("SPANFUSE_MODE is observe or enforce, not %r: left as decisions say", named)
    return None


def _purse(ledger: Ledger | str | None) -> Purse | None:
    if not ledger:
        return None
    from spanfuse.ledger.purse import opened

    return opened(ledger)


def _after_fork() -> None:
    for guard in list(_guards):
        guard._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
