"""The Guard: asked before each call, it refuses those of a session, agent, user or team that is stopped."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload

from spanfuse import settings
from spanfuse.calls.caps import NONE, Given
from spanfuse.context import Identity
from spanfuse.counters import Counts
from spanfuse.decisions.availability import OnUnavailable
from spanfuse.decisions.feed import FeedState
from spanfuse.decisions.judge import Mode
from spanfuse.decisions.probes import PROBE_LEASE_S
from spanfuse.emission import destination
from spanfuse.names import legible
from spanfuse.steering.actions import Actions

if TYPE_CHECKING:
    from spanfuse.calls.estimate import Price
    from spanfuse.calls.model_call import ModelCall
    from spanfuse.calls.tool_call import ToolCall
    from spanfuse.decisions.leases import Leases
    from spanfuse.ledger.ledger import Ledger
    from spanfuse.local import LocalHost
    from spanfuse.subscribers.base import Subscriber
    from spanfuse.tools.policy import ToolPolicy
    from spanfuse_schemas import Decision, Policy

F = TypeVar("F", bound=Callable[..., Any])
GuardState = Literal["disabled"] | FeedState

STALENESS_S: Final = 30.0
"""Silence after which nothing is known any more, seconds: six missed signs of life of the API or the broker."""

_guards: weakref.WeakSet[Guard] = weakref.WeakSet()


class Guard(Actions):
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
        leases: where the fleet shares the probes of half-open breakers: the address of a Redis, as of a ledger, or leases;
            default `SPANFUSE_LEASES`, else the ledger's Redis, else each process has probes of its own.
        signing_key: secret of `service.signing_key`, several separated by commas or in a list: then only what is signed with
            one of them is obeyed. Default `SPANFUSE_SIGNING_KEY`, else none: whatever arrives is obeyed.
        token: for the API, of the role `read`. Default `SPANFUSE_API_TOKEN`, else none.
        ledger: where strict budgets are kept, for `call`: a ledger, or its address (`spanfuse.ledger.connect`); default
            `SPANFUSE_LEDGER`, else none.
        price: model, input tokens, output tokens → USD, to price calls with; default the table that the ledger publishes, else,
            with `local`, list prices.
        local: whether the core runs in this process, too, so that repeats, cycles, caps and the session's budget hold to the
            call, with a server or without: True, rules by name as in the section `detectors` of the configuration, or a policy.
            True: the server's policy once it is heard of, until then the default rules, enforced. Without a `subscriber` there
            is no server.
        tools: which tools may be used, beside what the server's policy says of them.
        spans: whether a span is made of each call and tool that this Guard is told of, for agents without an instrumentation;
            `instrument` sends them.
        report_to: where counts of what was let through and refused go: the address of an OTLP/HTTP receiver, `kafka://…` or
            `off`. Default `SPANFUSE_REPORT_URL`, else where spans go, as far as `instrument` or the environment says.
        now_ns: wall clock, nanoseconds since the Unix epoch; for tests.
        monotonic: clock that never goes back, seconds; for tests.

    Raises:
        TypeError: if `subscriber` is neither an address nor a subscriber.
        ValueError: for an unknown mode, scope or address, a signing key of less than 16 characters, or a token that fits into
            no header.
        ImportError: for Kafka without the extra `kafka`, a ledger in Redis without `redis`, or `local` without `local`.
    """

    def __init__(
        self,
        subscriber: Subscriber | str | None = None,
        *,
        mode: Mode | None = None,
        on_unavailable: OnUnavailable | Mapping[str, OnUnavailable] = "open",
        staleness_s: float = STALENESS_S,
        probe_lease_s: float = PROBE_LEASE_S,
        leases: Leases | str | None = None,
        signing_key: str | Sequence[str] = (),
        token: str | None = None,
        ledger: Ledger | str | None = None,
        price: Price | None = None,
        local: Policy | Mapping[str, Any] | bool = False,
        tools: ToolPolicy | None = None,
        spans: bool = False,
        report_to: str | None = None,
        now_ns: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        # Here and not in the subscriber's thread: a fork during an import leaves the child's import lock held for ever.
        # Nor in the first call, for which an event loop would wait.
        import spanfuse.calls.tool_call
        import spanfuse.reading.gathered
        import spanfuse.reading.messages  # noqa: F401
        from spanfuse.calls.admission import Admission
        from spanfuse.calls.pricing import Pricing
        from spanfuse.emission.reports import Reporter
        from spanfuse.tools.policy import ToolPolicy

        purse = settings.purse_of(ledger)
        decided = settings.mode_of(mode)
        super().__init__(
            settings.feed_of(
                subscriber,
                token=token,
                signing_key=signing_key,
                staleness_s=staleness_s,
                monotonic=monotonic,
                local=local is not False,
            ),
            settings.judge_of(decided, leases, purse, probe_lease_s=probe_lease_s, now_ns=now_ns, monotonic=monotonic),
            mode=decided,
            on_unavailable=on_unavailable,
            disabled=settings.disabled(),
            now_ns=now_ns,
            monotonic=monotonic,
        )
        self.purse: Final = purse
        self.pricing: Final = Pricing(price, purse)
        self.admission: Final = Admission(self)
        self.tools: Final = tools or ToolPolicy()
        self.local: Final = None if local is False or self.disabled else self._hosted(local)
        self._reporter: Final = Reporter(self, report_to)
        self.listen(self.tools, *([self.local] if self.local is not None else ()), self._reporter)
        if spans and not self.disabled:
            from spanfuse.emission.spans import CallSpans

            self.listen(CallSpans())
        _guards.add(self)

    def _hosted(self, local: Policy | Mapping[str, Any] | bool) -> LocalHost:
        from spanfuse.local import LocalHost, policy_of

        host = LocalHost(policy_of(local), self.caps.forget, obeys=local is True)
        self._local, self.pricing.listed = host.held, host.price
        return host

    def ruled(self, who: Identity) -> Given:
        """The caps that the rules of a local host set for a call."""
        return self.local.caps(who) if self.local is not None else NONE

    def call(
        self,
        *,
        model: str = "",
        messages: Any = None,
        prompt: Any = None,
        system: Any = None,
        tools: Any = None,
        max_output_tokens: int | None = None,
        provider: str = "",
        operation: str = "chat",
        cost_usd: float | None = None,
        session: object = None,
        agent: object = None,
        user: object = None,
        team: object = None,
        trace: object = None,
        call_id: str | None = None,
    ) -> ModelCall:
        """Make one model call inside `with` or `async with`: it is checked, its estimate is held on every strict budget, and
        what it took is settled at the end of the block. In a coroutine use `async with`, which blocks no event loop.

        >>> with guard.call(model="gpt-4o-mini", messages=messages, max_output_tokens=500) as call:
        ...     answer = client.chat.completions.create(...)
        ...     call.answered(answer)

        Args:
            model: the model, by whose price the call is estimated.
            messages: as of `check`; their size is the estimate of the input.
            prompt: as of `check`.
            system: instructions of the system that are kept apart from the messages.
            tools: definitions of tools that are sent along.
            max_output_tokens: the most that the model may answer, tokens; default 4,096.
            provider: who is asked, under its OpenTelemetry name (`gen_ai.provider.name`).
            operation: what for (`gen_ai.operation.name`).
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
        from spanfuse.calls.model_call import Asked, ModelCall

        asked = Asked(
            legible(model) or "",
            messages,
            prompt,
            system,
            tools,
            max_output_tokens,
            legible(provider) or "",
            legible(operation) or "chat",
            cost_usd,
        )
        return ModelCall(self, _given(session, agent, user, team, trace), asked, call_id)

    def tool(
        self,
        name: str,
        arguments: Any = None,
        *,
        call_id: str = "",
        session: object = None,
        agent: object = None,
        user: object = None,
        team: object = None,
        trace: object = None,
    ) -> ToolCall:
        """Execute a tool inside `with` or `async with`: the tool policy is asked first, what it brought is learned from.

        >>> with guard.tool("search", {"query": query}) as tool:
        ...     tool.result(search(query))

        Args:
            name: name of the tool.
            arguments: what it is called with, an object or its JSON text.
            call_id: id of the tool call, as the provider gave it.
            session: this and the other names are as of `check`.
            agent: name of the agent.
            user: id of the user.
            team: team that pays.
            trace: trace id.

        Entering the block raises:
            Blocked: its session is stopped, or the policy denies it (`ToolDenied`).
        """
        from spanfuse.calls.tool_call import ToolCall

        return ToolCall(self, _given(session, agent, user, team, trace), name, arguments, call_id)

    def _begin(self) -> bool:
        begun = super()._begin()
        if begun:
            self._reporter.start()
        return begun

    def start(self) -> None:
        """Start to follow decisions now rather than with the first check. Returns at once; see `wait_ready`."""
        if not self.disabled:
            self._feed.start()
            self._reporter.start()

    def wait_ready(self, timeout_s: float = 10.0) -> bool:
        """Wait until all present decisions are known, at most `timeout_s` seconds; whether they are."""
        return not self._begin() or self._feed.wait_ready(timeout_s)

    def flush(self, timeout_s: float = 2.0) -> bool:
        """Send what waits, spans and reports, as before a serverless function is frozen; whether all was taken, within so many
        seconds."""
        began = time.monotonic()
        sent = destination.flush_spans(timeout_s)
        return self._reporter.flush(max(0.05, timeout_s - (time.monotonic() - began))) and sent

    def close(self) -> None:
        """Stop following. Blocks that are known hold until they expire; `start` begins anew."""
        self._reporter.close()
        self._feed.close()
        self._judge.probes.close()
        self.cancels.close()
        if self.purse is not None:
            self.purse.close()

    def __enter__(self) -> Guard:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

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
        from spanfuse.calls.protect import protected

        names = _given(session, agent, user, team, None)
        if function is not None:
            return protected(self, function, names)
        return lambda decorated: protected(self, decorated, names)

    @overload
    def wrap_call(self, function: F, /, **given: Any) -> F: ...
    @overload
    def wrap_call(self, /, **given: Any) -> Callable[[F], F]: ...
    def wrap_call(self, function: Any = None, /, **given: Any) -> Any:
        """Decorate a function that is one model call: its parameters `model`, `messages`, `prompt`, `system` and `tools`
        are what is asked, what it returns or yields is the answer. For whatever no integration knows.

        >>> @guard.wrap_call(model="our-llama", provider="vllm")
        ... def ask(messages): ...

        Args:
            function: of any kind: plain, coroutine, generator or async generator.
            given: arguments of `call`.
        """
        from spanfuse.calls.wrapped import wrapped_call

        if function is not None:
            return wrapped_call(self, function, given)
        return lambda decorated: wrapped_call(self, decorated, given)

    @overload
    def wrap_tool(self, function: F, /, *, name: str = "", **names: object) -> F: ...
    @overload
    def wrap_tool(self, /, *, name: str = "", **names: object) -> Callable[[F], F]: ...
    def wrap_tool(self, function: Any = None, /, *, name: str = "", **names: object) -> Any:
        """Decorate a function that is a tool: its arguments are the tool's.

        >>> @guard.wrap_tool
        ... def search(query: str) -> str: ...

        Args:
            function: a plain or coroutine function.
            name: name of the tool; default: the function's.
            names: session, agent, user and team, as of `check`.
        """
        from spanfuse.calls.wrapped import wrapped_tool

        def decorate(decorated: Any) -> Any:
            return wrapped_tool(self, decorated, name or getattr(decorated, "__name__", "tool"), names)

        return decorate if function is None else decorate(function)

    @property
    def state(self) -> GuardState:
        """`disabled`, `new` (no check yet), `connecting`, `ready`, `stale` or `closed`."""
        return "disabled" if self.disabled else self._feed.state

    @property
    def age_s(self) -> float | None:
        """Seconds since the last sign of life of the subscriber's source; None before the first."""
        return self._feed.age_s

    @property
    def may_wait(self) -> bool:
        """Whether to let a call through may take time: for a ledger, for the leases of the fleet, or for somebody who is asked.
        Where it may not, `begin` is as good in an event loop as `abegin`."""
        return self.purse is not None or self._judge.probes.shared or self.tools.asks

    @property
    def counters(self) -> Counts:
        """What was asked and answered in this process."""
        return self._counters.snapshot()._replace(unsigned=self._feed.unsigned)

    def decisions(self) -> list[Decision]:
        """The decisions in force as this process knows them, its own included."""
        return [*self._table.decisions(), *(self.local.decisions() if self.local is not None else ())]

    def _after_fork(self) -> None:
        self._new_counters()
        self.caps.after_fork()
        self.admission.after_fork()
        self.tell("after_fork")
        self._judge.probes.after_fork()
        self._feed.after_fork()
        if self.purse is not None:
            self.purse.after_fork()


def _given(session: object, agent: object, user: object, team: object, trace: object) -> dict[str, object]:
    """The names that were given."""
    given = {"session": session, "agent": agent, "user": user, "team": team, "trace": trace}
    return {name: value for name, value in given.items() if value is not None}


def _after_fork() -> None:
    for guard in list(_guards):
        guard._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
