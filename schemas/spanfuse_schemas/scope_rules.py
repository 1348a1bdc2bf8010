"""Settings of the rules that look beyond one call of one agent: at who takes turns, and at whole agents, traces and teams."""

from __future__ import annotations

from typing import Final

from pydantic import Field, model_validator

from spanfuse_schemas.detection import Mode
from spanfuse_schemas.rule import Rule

_ONLY_WARNS: Final = ("off", "shadow", "warn")


class Handoffs(Rule):
    """`handoffs`: agents of one session that take turns strictly, and only talk."""

    mode: Mode = "warn"
    """Default `warn`: that nothing comes of a conversation cannot be told from its form."""
    rounds: int = Field(default=10, ge=2)
    """Full rounds at which it fires. Default 10: agents that review one another's work settle within a handful."""
    max_period: int = Field(default=4, ge=2, le=4)
    """Longest round looked for, turns. Default 4: with more agents than that the order is a workflow's."""
    tools: tuple[str, ...] = ("transfer_to_*", "handoff*", "delegate*", "ask_*")
    """Tools that hand on a task, `*` and `?` as in a shell: calling one is talk. Any other tool is work, and ends the count.
    Default: as the common frameworks name them."""


class AgentBreaker(Rule):
    """`agent.breaker`: many sessions of one agent were stopped."""

    mode: Mode = "warn"
    """Default `warn`: a stop of the agent costs all its sessions, those that get on too, and their own breakers hold the others
    already. `block` is for agents that are better silent than wrong."""
    sessions: int = Field(default=5, ge=2, le=100)
    """Sessions stopped within the window, at least. Default 5: two or three may share one bad task."""
    share: float = Field(default=0.5, gt=0, le=1)
    """Share of the sessions at work within the window that they are, at least. Default 0.5: a few in a large fleet are an
    affair of these few."""
    window_s: float = Field(default=600, gt=0, le=86_400)
    """The window, seconds. Default 600: twice the cooldown of a session, so that one which trips again is one."""


class Fanout(Rule):
    """`fanout`: agents and sessions multiply within one trace."""

    mode: Mode = "warn"
    """Default `warn`: a search over hundred documents looks the same."""
    max_agents: int = Field(default=25, ge=1, le=100)
    """Agents at work in one trace within the window that are still let through; a session is one for each agent in it. Default
    25: a lead with five workers that have four each."""
    window_s: float = Field(default=60, gt=0, le=86_400)
    """The window, seconds. Default 60: what multiplies is past any number within a minute."""


class Retries(Rule):
    """`retries`: provider failures of an agent, a team or all together."""

    mode: Mode = "warn"
    """`off`, `shadow` or `warn`: a limit of the provider is nobody's loop; what helps is pacing, not a stop."""
    count: int = Field(default=50, ge=1)
    """Failures within the window, at least. Default 50: ten sessions at the limit of `errors`."""
    share: float = Field(default=0.2, gt=0, le=1)
    """Share of the model calls within the window that they are, at least. Default 0.2: with one failure in five, retries are
    part of the load."""
    window_s: float = Field(default=60, ge=10, le=600)
    """The window, seconds; counted in steps of ten. Default 60: limits of providers are per minute."""

    @model_validator(mode="after")
    def _warns(self) -> Retries:
        if self.mode not in _ONLY_WARNS:
            raise ValueError(
                f"mode {self.mode}: retries blames no session and only warns; `errors` stops one that fails"
            )
        return self


class Coverage(Rule):
    """`coverage`: Guards let calls through whose spans do not come."""

    mode: Mode = "warn"
    """`off`, `shadow` or `warn`: what is not seen cannot be stopped."""
    below: float = Field(default=0.8, gt=0, le=1)
    """Share of the calls told of by Guards, under which it fires. Default 0.8: budgets are a quarter off then."""
    min_calls: int = Field(default=10, ge=1)
    """Calls told of within the window, at least. Default 10: of fewer, one that is late is a large share."""
    window_s: float = Field(default=600, ge=30, le=3600)
    """The window, seconds; counted in steps of 30. Default 600: long enough for an agent that calls once a minute."""
    grace_s: float = Field(default=60, ge=0, le=3600)
    """How long after its end the span of a call may take to come, seconds. Default 60: exporters and Collectors take up to half
    a minute; those of functions that are frozen between their calls take as long as that lasts."""

    @model_validator(mode="after")
    def _warns(self) -> Coverage:
        if self.mode not in _ONLY_WARNS:
            raise ValueError(f"mode {self.mode}: coverage only warns, since it is about calls that nobody sees")
        return self


class Adaptive(Rule):
    """`adaptive`: sessions far larger than those of their agent usually are."""

    mode: Mode = "off"
    """`off`, `shadow` or `warn`. Default `off`: the baseline is kept and shown all the same, as a recommendation."""
    sessions: int = Field(default=30, ge=5)
    """Sessions of the agent without which nothing is said. Default 30: one outlier does not make the 95th percentile."""
    factor: float = Field(default=2, ge=1)
    """Multiple of the 95th percentile that is recommended as a limit, and at which a session is warned of. Default 2: one
    session in twenty is above the percentile itself."""
    floor_calls: int = Field(default=20, ge=1)
    """Says nothing of the length of a session below this, model calls."""
    floor_usd: float = Field(default=0.1, ge=0)
    """Says nothing of the cost of a session below this, USD."""

    @model_validator(mode="after")
    def _recommends(self) -> Adaptive:
        if self.mode not in _ONLY_WARNS:
            raise ValueError(
                f"mode {self.mode}: adaptive only recommends, since a baseline moves with what it would limit; set what it "
                "recommends in limits.max_steps or the session's budget"
            )
        return self
