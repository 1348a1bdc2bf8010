"""Tells an agent's code how full the model's context window is, so that it can make room in time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from spanfuse.bounded import Bounded
from spanfuse.calls.estimate import tokens_of

if TYPE_CHECKING:
    from spanfuse.calls.model_call import ModelCall

Window = int | Mapping[str, int] | Callable[[str], int | None]
TIERS: Final[Mapping[str, float]] = {"warning": 0.6, "error": 0.8, "blocking": 0.9}
"""Tier → share of the window from which it begins: by name those of the rule `context`, and earlier, since what makes room
takes a call of its own."""
SHORTENED: Final = 0.9
"""Share of a tier's begin under which a conversation has been shortened; above it, an estimate and a count only differ."""
MAX_LANES: Final = 10_000
"""Conversations whose tier is remembered."""


class ContextPressure(NamedTuple):
    """A conversation has come to another share of the window."""

    tier: str
    """Name of the highest tier reached."""
    share: float
    """Share of the window that is in use."""
    tokens: int
    """Input tokens."""
    window: int
    """The model's context window, tokens."""
    estimated: bool
    """Whether the tokens are an estimate, of a call about to be made; else what the provider counted."""
    model: str
    session: str | None
    agent: str | None


class _Lane:
    __slots__ = ("estimate", "factor", "tier")

    def __init__(self) -> None:
        self.estimate = 0
        self.factor = 1.0
        """How many tokens the provider counts for one of the estimate."""
        self.tier = -1


class ContextWatch:
    """A listener of a Guard. It tells of a tier when it is reached, before the call where the estimate shows it, and again
    after the conversation was shortened below it. Each agent of a session has a window of its own.

    Args:
        callback: is called in the thread of the call.
        window: the model's context window, tokens; by model; or a function of the model. Models without one are passed over.
        at: tier → share of the window.

    Raises:
        ValueError: a share is none.
    """

    def __init__(
        self, callback: Callable[[ContextPressure], object], window: Window, at: Mapping[str, float] = TIERS
    ) -> None:
        self._tiers = sorted(at.items(), key=lambda tier: tier[1])
        if not self._tiers or not 0 < self._tiers[0][1] <= self._tiers[-1][1] <= 1:
            raise ValueError("a tier begins at a share of the window, above 0 and up to 1")
        self._callback, self._window = callback, window
        self._lanes: Bounded[tuple[str | None, str | None], _Lane] = Bounded(MAX_LANES)
        self.after_fork()

    def after_fork(self) -> None:
        """The lock may have been held by a thread that does not exist in this process."""
        self._lock = threading.Lock()

    def began(self, call: ModelCall) -> None:
        """A model call is about to be made."""
        asked = call.asked
        window = self._window_of(asked.model)
        sent = (asked.system, asked.messages, asked.prompt, asked.tools)
        if window is not None and any(sent):
            lane = self._lane(call)
            lane.estimate = tokens_of(sent)
            self._look(call, lane, round(lane.estimate * lane.factor), window, estimated=True)

    def ended(self, call: ModelCall) -> None:
        """A model call is over."""
        window = self._window_of(call.asked.model)
        told = call.answer.input_tokens if call.answer is not None else None
        if window is not None and told:
            lane = self._lane(call)
            if lane.estimate:
                lane.factor = min(max(told / lane.estimate, 0.25), 4.0)
            self._look(call, lane, told, window, estimated=False)

    def _window_of(self, model: str) -> int | None:
        if isinstance(self._window, int):
            return self._window
        return self._window.get(model) if isinstance(self._window, Mapping) else self._window(model)

    def _lane(self, call: ModelCall) -> _Lane:
        of = (call.who.session, call.who.agent)
        with self._lock:
            found = self._lanes.get(of)
            if found is None:
                found = self._lanes[of] = _Lane()
        return found

    def _look(self, call: ModelCall, lane: _Lane, tokens: int, window: int, *, estimated: bool) -> None:
        share = tokens / window
        tier = sum(share >= begins for _, begins in self._tiers) - 1
        with self._lock:
            rises = tier > lane.tier
            if rises or share < SHORTENED * self._tiers[lane.tier][1]:
                lane.tier = tier
        if rises:
            name, who = self._tiers[tier][0], call.who
            self._callback(
                ContextPressure(name, share, tokens, window, estimated, call.asked.model, who.session, who.agent)
            )
