"""Which Guard an integration asks, and whose calls it makes."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spanfuse.calls.caps import Spent
from spanfuse.integrations._names import safely
from spanfuse.reading.asked import asked, nudged
from spanfuse.reading.earlier import Earlier

if TYPE_CHECKING:
    from spanfuse.calls.model_call import ModelCall
    from spanfuse.guard import Guard
    from spanfuse.reading.asked import Kind

_lock = threading.Lock()
_guard: Guard | None = None
_earlier = Earlier()


def _after_fork() -> None:
    """The locks may have been held by threads that do not exist in this process."""
    global _lock, _earlier
    _lock, _earlier = threading.Lock(), Earlier()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def default_guard() -> Guard:
    """The Guard of integrations that are given none: one per process. It needs no server, and follows one that
    `SPANFUSE_API_URL` names.

    Raises:
        ImportError: without the extra `local`.
    """
    global _guard
    with _lock:
        if _guard is None:
            from spanfuse.guard import Guard

            _guard = Guard(local=True)
        return _guard


class Bound:
    """A Guard with the names of the calls that one client makes.

    Args:
        guard: None: `default_guard`.
        session_id: their session; None: the one at hand, or, with a cap, one of the client's own.
        session_budget: the most that the session may spend, USD.
        max_steps: model calls that the session may make.
        deadline_s: time from now after which it may make none, seconds.
        agent: name of the agent; this, user and team: None: the one at hand.
        user: id of the user.
        team: team that pays.

    Raises:
        ValueError: a cap that is negative or no number.
    """

    def __init__(
        self,
        guard: Guard | None = None,
        *,
        session_id: object = None,
        session_budget: float | None = None,
        max_steps: int | None = None,
        deadline_s: float | None = None,
        agent: object = None,
        user: object = None,
        team: object = None,
    ) -> None:
        self.guard = guard or default_guard()
        capped = any(cap is not None for cap in (session_budget, max_steps, deadline_s))
        session = uuid.uuid4().hex if session_id is None and capped else session_id
        self._names: dict[str, Any] = {"session": session, "agent": agent, "user": user, "team": team}
        if capped:
            self.guard.session(session, budget_usd=session_budget, max_steps=max_steps, deadline_s=deadline_s)

    def call(self, shown: dict[str, Any]) -> ModelCall:
        """A call of which the Guard is shown this, as the arguments of `Guard.call`."""
        return self.guard.call(**self._names, **shown)


def read(kind: Kind, body: Mapping[str, Any]) -> dict[str, Any]:
    """What the Guard is shown of a request: as `asked`, with what it refers to."""
    return asked(kind, body, _earlier)


def with_nudge_of(call: ModelCall, kind: Kind, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The body with the call's nudge, if it has one."""
    return (safely(call.guard, lambda: nudged(kind, body, call.nudge)) or body) if call.nudge else body


def remember(kind: Kind | None, body: Any, call: ModelCall) -> None:
    """A call has ended: remember its answer for requests that refer to it."""
    if kind == "responses":
        _earlier.keep(body, call.answer)


def over(bound: Bound, call: ModelCall, kind: Kind | None, body: Any, response: Any) -> None:
    """The same, and put on its response what it cost and what its session has used, as `spanfuse_cost`,
    `spanfuse_session_cost` and `spanfuse_session_steps`: zeros, where the call is in no session or the Guard is off.

    Args:
        kind: the API; None: unknown.
        body: of the request.
        response: None: it is gone.
    """
    try:
        remember(kind, body, call)
        if response is not None:
            _tell(bound.guard, call, response)
    except Exception:  # a response that takes no attributes
        return


def _tell(guard: Guard, call: ModelCall, response: Any) -> None:
    session = call.who.session
    spent = Spent() if session is None else guard.spent(session)
    told = {
        "spanfuse_cost": call.cost_nano_usd / 1e9,
        "spanfuse_session_cost": spent.cost_usd,
        "spanfuse_session_steps": spent.steps,
    }
    for name, value in told.items():
        object.__setattr__(response, name, value)  # no field of the model: it is not in its dump


class DropIn:
    """Before the class of a client: it takes, beside its own arguments, those of `Bound`, and is guarded from the beginning."""

    def __init__(
        self,
        *args: Any,
        guard: Guard | None = None,
        session_id: object = None,
        session_budget: float | None = None,
        max_steps: int | None = None,
        deadline_s: float | None = None,
        agent: object = None,
        user: object = None,
        team: object = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        caps: dict[str, Any] = {"session_budget": session_budget, "max_steps": max_steps, "deadline_s": deadline_s}
        self._bind(Bound(guard, session_id=session_id, agent=agent, user=user, team=team, **caps))

    def _bind(self, bound: Bound) -> None:
        raise NotImplementedError
