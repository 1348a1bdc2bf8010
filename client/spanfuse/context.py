"""On whose behalf the code at hand runs: context variables, so that nested, threaded and asynchronous code is told apart."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from spanfuse.names import legible

if TYPE_CHECKING:
    from spanfuse.decisions.probes import Lease

P = ParamSpec("P")
R = TypeVar("R")


class Identity:
    """Session, agent, user and team of a call; None where not known."""

    __slots__ = ("agent", "session", "team", "trace", "user")

    def __init__(
        self,
        session: str | None = None,
        agent: str | None = None,
        user: str | None = None,
        team: str | None = None,
        trace: str | None = None,
    ) -> None:
        self.session = session
        self.agent = agent
        self.user = user
        self.team = team
        self.trace = trace

    def __repr__(self) -> str:
        return "Identity(" + ", ".join(f"{k}={v!r}" for k in sorted(self.__slots__) if (v := getattr(self, k))) + ")"


class Call:
    """One call in progress: all checks made inside it are the same call, and share its probe."""

    __slots__ = ("leases",)

    def __init__(self) -> None:
        self.leases: tuple[Lease, ...] = ()
        """What it has taken of half-open breakers."""


NOBODY: Final = Identity()
IDENTITY: Final[contextvars.ContextVar[Identity]] = contextvars.ContextVar("spanfuse_identity", default=NOBODY)
CALL: Final[contextvars.ContextVar[Call | None]] = contextvars.ContextVar("spanfuse_call", default=None)


def _no_trace() -> str | None:
    return None


trace_source: Callable[[], str | None] = _no_trace
"""Gives the id of the trace at hand; `spanfuse.otel` puts OpenTelemetry's current span here."""


def current() -> Identity:
    """The identity in force here."""
    return IDENTITY.get()


class session:
    """Name the session, and what else is known, for all that runs inside the `with` block.

    Checks inside need no arguments, and spans started inside carry the names (with `spanfuse.instrument`). What is left
    out is inherited from the block around it. Works in asynchronous code; a new thread starts without a session unless
    its function goes through `carry`.

    Args:
        session: id of the session; None: that of the block around it.
        agent: name of the agent.
        user: id of the user.
        team: team that pays.
        trace: trace id, 32 hex digits.
    """

    __slots__ = ("_named", "_tokens")

    def __init__(
        self,
        session: object = None,
        *,
        agent: object = None,
        user: object = None,
        team: object = None,
        trace: object = None,
    ) -> None:
        self._named = Identity(*map(legible, (session, agent, user, team, trace)))
        self._tokens: list[contextvars.Token[Identity]] = []

    def named(self) -> str:
        """The session that is named, here or by the block around it.

        Raises:
            ValueError: none is.
        """
        found = self._named.session or IDENTITY.get().session
        if found is None:
            raise ValueError("no session is named: pass its id")
        return found

    def __enter__(self) -> Identity:
        outer, named = IDENTITY.get(), self._named
        identity = Identity(
            named.session or outer.session,
            named.agent or outer.agent,
            named.user or outer.user,
            named.team or outer.team,
            # Another session is not in the outer session's trace, unless the caller says so.
            named.trace or (None if named.session else outer.trace),
        )
        self._tokens.append(IDENTITY.set(identity))
        return identity

    def __exit__(self, *exc: object) -> None:
        try:
            IDENTITY.reset(self._tokens.pop())
        except (ValueError, IndexError):
            # Left in another context, as when an event loop finalises an async generator: nothing to restore there.
            return


Session = session
"""The same, where a parameter is called `session`."""


def whose(names: Mapping[str, object]) -> Identity:
    """The identity at hand with the names that were given, and its trace, which names the session where nothing else does."""
    who = IDENTITY.get()
    if names:
        with session(**names) as who:
            pass
    trace = who.trace or trace_source()
    return Identity(who.session or (f"trace:{trace}" if trace else None), who.agent, who.user, who.team, trace)


class call:
    """Make everything inside one call, so that its checks share one probe. A call inside a call is the same call."""

    __slots__ = ("_identity", "_outer", "made")

    def __init__(self, identity: Identity | None = None) -> None:
        self.made = CALL.get() or Call()
        """The call."""
        self._identity = identity
        self._outer: list[tuple[Call | None, Identity]] = []

    def __enter__(self) -> None:
        self._outer.append((CALL.get(), IDENTITY.get()))
        CALL.set(self.made)
        if self._identity is not None:
            IDENTITY.set(self._identity)

    def __exit__(self, *exc: object) -> None:
        # Set back, not reset by token: a generator may be closed in another context than it began in.
        outer, identity = self._outer.pop()
        CALL.set(outer)
        if self._identity is not None:
            IDENTITY.set(identity)


def carry(function: Callable[P, R]) -> Callable[P, R]:
    """Bind a function to the present session, for a thread or executor that would start without one.

    >>> executor.submit(carry(work), item)
    """
    identity, in_call = IDENTITY.get(), CALL.get()

    def carried(*args: P.args, **kwargs: P.kwargs) -> R:
        context = contextvars.copy_context()
        context.run(IDENTITY.set, identity)
        context.run(CALL.set, in_call)
        return context.run(function, *args, **kwargs)

    carried.__name__ = getattr(function, "__name__", "carried")
    carried.__wrapped__ = function  # type: ignore[attr-defined]
    return carried
