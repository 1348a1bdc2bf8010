"""What is detected, at which thresholds, and what then happens: one frozen record that operators write.

Each rule has its own settings; each settings record has a `mode`. `overrides` change them for an agent, a tool or a team.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import ConfigDict, Field, model_validator

from spanfuse_schemas.budget import Budget
from spanfuse_schemas.detection import Mode
from spanfuse_schemas.drift_rules import DriftRule, SafetyDrift
from spanfuse_schemas.pace_rules import Context, SpendCreep, SpendIdle, Velocity, VelocityBurn, VelocityCost
from spanfuse_schemas.record import SCHEMA_VERSION, Record
from spanfuse_schemas.rule import Rule, Settings
from spanfuse_schemas.scope_rules import Adaptive, AgentBreaker, Coverage, Fanout, Handoffs, Retries
from spanfuse_schemas.tool_policy import MAX_RULES, ToolAction, ToolRule


class Repeat(Rule):
    """Settings of a rule that counts equal steps."""

    count: int = Field(default=3, ge=2, le=40)
    """Equal steps that are still let through; the next is refused. Default 3: a second try is normal, a
    third that brings the same is not. At most 40, as many as are remembered."""
    min_interval_s: float = Field(default=0, ge=0)
    """A repeat this long after the one before, seconds, is waiting and not counted. Default 0: all are counted."""
    wait_s: float = Field(default=60, gt=0)
    """Repeats that all came this long after the one before, seconds, are taken for waiting: at `count` the agent is only
    nudged. Default 60: who looks once a minute is waiting for something; a loop takes seconds a round."""
    wait_count: int = Field(default=10, ge=2, le=40)
    """Repeats of that kind that are still let through. Default 10: ten minutes at the least."""


class NoProgress(Repeat):
    """`repeat.no_progress`: equal steps that need not follow one another."""

    within: int = Field(default=12, ge=2, le=40)
    """Steps among which the equal ones must lie. Default 12: farther apart, enough has been done between two to look again
    (re-reading a file after some edits)."""
    failures: int = Field(default=5, ge=2, le=40)
    """Equal failures that are still let through where other steps brought something new between them; nudged from `count` on.
    Default 5: three different attempts at one failing test are work, and so may a fourth be."""

    exempt: bool = False
    """Asking again is this tool's work (it waits, it polls): what it does is no step to any rule on repetition."""

    @model_validator(mode="after")
    def _reachable(self) -> NoProgress:
        if self.count > self.within:
            raise ValueError(f"count {self.count} cannot be reached within {self.within} steps")
        return self


class RepeatError(Repeat):
    """`repeat.error`: the same action in a row, each time an error of the tool."""

    one_message: int = Field(default=8, ge=2, le=40)
    """Failures of one tool in a row with one message, whatever the arguments, at which the agent is nudged. Default 8: a batch
    of items that are all missing is no fault of the agent."""


class RepeatAction(Rule):
    """`repeat.action`: the same action again and again, with different observations: polling, paging."""

    mode: Mode = "block"
    """As for every rule; with `block`, `nudge_at` still only nudges."""
    nudge_at: int = Field(default=10, ge=2, le=40)
    """Run length at which the agent is nudged, steps."""
    count: int = Field(default=30, ge=2, le=40)
    """Run length at which it is blocked, steps; at most 40, as many as are remembered."""
    min_interval_s: float = Field(default=0, ge=0)
    """A repeat this long after the one before, seconds, is waiting and not counted."""


class RepeatRefused(Rule):
    """`repeat.refused`: the provider refuses the same request as wrong, again and again."""

    count: int = Field(default=5, ge=2)
    """Refusals in a row that are let through. Default 5: a framework tries three times, and may shorten what it sends."""


class RepeatPaging(Rule):
    """`repeat.paging`: the same thing is paged through once more."""

    mode: Mode = "nudge"
    """Default `nudge`: what lies on the pages may be new all the same."""
    count: int = Field(default=2, ge=1)
    """Whole passes that are let through; nudged from the second on. Default 2: a second look may be for something else."""


class Near(Rule):
    """`near.*`: the repeat rules on the canonical text, on the wording of short arguments and, if set so, on the SimHash of
    long prompts."""

    similarity: float = Field(default=0.6, gt=0, le=1)
    """Least Jaccard index of the words in the arguments of two actions that ask the same in other words; their numbers have
    to be equal, and the newest may hold no word that none of the others has. Default 0.6: of four words one may be another."""

    volatile_count: int = Field(default=4, ge=2, le=40)
    """Values of one argument, all else being equal, that may bring the same result; the next is refused. Default 4: one more
    than an exact repeat, since each was another question."""
    semantic: bool = False
    """Whether tools and arguments that mean the same (`delete_line(5)`, `remove_line(5)`) and bring the same are repeats, at
    the count of `repeat.no_progress`. Needs the extra `semantic` where spans are read. Default off: it takes a model's word for
    what means the same."""
    max_distance: int = Field(default=0, ge=0, le=16)
    """Largest Hamming distance, bits, of the SimHashes of two long prompts that still count as the same; 3 in Manku et al.
    (2007). Default 0, only canonical equality: in prompts made from one long template what differs is what matters, and it
    moves few bits."""


class Cycle(Rule):
    """`cycle`: the last steps are full rounds of one period."""

    rounds: int = Field(default=3, ge=2)
    """Full rounds on (action, observation) that are still let through."""
    wait_s: float = Field(default=60, gt=0)
    """A cycle each of whose rounds took this long, seconds, is taken for waiting: at `rounds` the agent is only nudged. Default
    60, as for repeats."""
    wait_rounds: int = Field(default=10, ge=2)
    """Full rounds of that kind that are still let through. Default 10, as for repeats."""
    rounds_with_errors: int = Field(default=2, ge=2)
    """The same where a tool failed on the way round. Default 2: doing what has failed once more is a retry, and so is a
    round; a third meets the same failure."""
    action_rounds: int = Field(default=6, ge=2)
    """Full rounds on the action alone, with observations that differ, at which the agent is nudged."""
    max_period: int = Field(default=12, ge=2, le=12)
    """Longest period looked for, steps."""


class Stagnation(Rule):
    """`stagnation`: hardly any step does or sees anything new."""

    window: int = Field(default=30, ge=8, le=40)
    """Steps judged together; at most 40, as many as are remembered. Default 30: two and a half of the longest cycles."""
    nudge_below: float = Field(default=0.3, ge=0, le=1)
    """Share of new steps in the window under which the agent is nudged."""
    block_below: float = Field(default=0.15, ge=0, le=1)
    """Share under which it is blocked. Default 0.15: not five in thirty; agents that get on have more than half."""
    echoes: int = Field(default=8, ge=3, le=40)
    """Steps in a row whose observation only says what the action said that are still let through; nudged two before. Default
    8: tools that answer with what they were given exist, and one may be used some times in a row."""

    @model_validator(mode="after")
    def _ordered(self) -> Stagnation:
        if self.block_below > self.nudge_below:
            raise ValueError(f"block_below {self.block_below} lies above nudge_below {self.nudge_below}")
        return self


class Errors(Rule):
    """`errors`: provider failures (429, 5xx, time-outs) within a window."""

    count: int = Field(default=5, ge=1, le=64)
    """Failures within the window that open the breaker."""
    window_s: float = Field(default=60, gt=0)
    """The window, seconds."""


class Limits(Rule):
    """`limits.*`: absolute caps of one session. Each is off until set."""

    max_steps: int | None = Field(default=None, ge=1)
    """Model calls."""
    max_tool_calls: dict[str, int] = Field(default_factory=dict)
    """Executions of a tool, by its name; `*` for every tool not named."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Input and output tokens together."""
    max_duration_s: float | None = Field(default=None, gt=0)
    """Time from the start of the first call, seconds."""


class SessionBudget(Rule):
    """`budget.session`: money one session may spend."""

    limit_usd: float | None = Field(default=None, gt=0)
    """Limit, USD. Default none. A call is refused once the limit is reached, so that the call in flight may exceed it."""


class Breaker(Settings):
    """The circuit breaker of a key."""

    cooldown_s: float = Field(default=300, gt=0)
    """How long it stays open before a probe, seconds."""
    max_cooldown_s: float = Field(default=3600, gt=0)
    """Upper bound of the cooldown, which doubles whenever a probe fails, seconds."""
    probes: int = Field(default=1, ge=1, le=100)
    """Calls that are let through once the cooldown is over, of all processes together. The first that fails opens the breaker
    again; it closes when so many went well. Default 1, which risks least."""


class Rules(Settings):
    """The settings of all rules."""

    repeat_no_progress: NoProgress = Field(default=NoProgress(), alias="repeat.no_progress")
    """Same action and same observation, within the window of steps."""
    repeat_error: RepeatError = Field(default=RepeatError(), alias="repeat.error")
    """Same action in a row, each time an error of the tool."""
    repeat_prompt: Repeat = Field(default=Repeat(), alias="repeat.prompt")
    """Same new input in a row while the history does not grow: the agent starts over."""
    repeat_action: RepeatAction = Field(default=RepeatAction(), alias="repeat.action")
    """Same action in a row, with different observations."""
    repeat_refused: RepeatRefused = Field(default=RepeatRefused(), alias="repeat.refused")
    """The provider refuses the same request as wrong."""
    repeat_paging: RepeatPaging = Field(default=RepeatPaging(), alias="repeat.paging")
    """The same thing is paged through once more."""
    near: Near = Near()
    """The same but for ids, times, counters, the order of words or a label."""
    cycle: Cycle = Cycle()
    """Rounds of period 2 to 12."""
    stagnation: Stagnation = Stagnation()
    """Hardly any step is new."""
    drift: DriftRule = DriftRule()
    """The agent follows an instruction that stands in a tool result."""
    safety_drift: SafetyDrift = SafetyDrift()
    """A user turn far from the first ones."""
    velocity: Velocity = Velocity()
    """Model calls per minute."""
    velocity_cost: VelocityCost = Field(default=VelocityCost(), alias="velocity.cost")
    """Money per minute."""
    velocity_burn: VelocityBurn = Field(default=VelocityBurn(), alias="velocity.burn")
    """The same large context again and again, and nothing comes of it."""
    spend_idle: SpendIdle = Field(default=SpendIdle(), alias="spend.idle")
    """An idle agent that is woken for nothing."""
    spend_creep: SpendCreep = Field(default=SpendCreep(), alias="spend.creep")
    """Calls that cost more and more."""
    context: Context = Context()
    """The model's context window."""
    errors: Errors = Errors()
    """Provider failures."""
    limits: Limits = Limits()
    """Absolute caps."""
    budget_session: SessionBudget = Field(default=SessionBudget(), alias="budget.session")
    """Money per session."""
    handoffs: Handoffs = Handoffs()
    """Agents of a session take turns, and only talk."""
    agent_breaker: AgentBreaker = Field(default=AgentBreaker(), alias="agent.breaker")
    """Many sessions of one agent were stopped."""
    fanout: Fanout = Fanout()
    """Agents multiply within a trace."""
    retries: Retries = Retries()
    """Provider failures of many sessions together."""
    adaptive: Adaptive = Adaptive()
    """Sessions far larger than usual."""
    coverage: Coverage = Coverage()
    """Calls that Guards let through, and whose spans do not come."""
    breaker: Breaker = Breaker()
    """Cooldown and probes."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, validate_by_alias=True, serialize_by_alias=True
    )


RULE_NAMES: Final = tuple((f.alias or name) for name, f in Rules.model_fields.items())
"""Keys of `Policy.rules`, in order."""


_OF_STEPS: Final = (
    "repeat.no_progress", "repeat.error", "repeat.action", "repeat.paging", "near", "cycle", "stagnation",
)  # fmt: skip


_OF_AGENTS: Final = ("agent.breaker", "adaptive")
"""Rules on what all sessions of an agent come to, whatever their teams."""


class Override(Settings):
    """Settings for some calls only. All of `agent`, `tool` and `team` that are given must match; later ones win."""

    agent: str | None = None
    """Agent's name; `*` and `?` as in a shell. `fanout` knows none: a trace is of many agents and teams."""
    tool: str | None = None
    """Tool's name; `*` and `?` as in a shell. Only rules on steps know it, that of the newest one: `repeat.no_progress`,
    `repeat.error`, `repeat.action`, `repeat.paging`, `near`, `cycle` and `stagnation`."""
    team: str | None = None
    """Team's name; `*` and `?` as in a shell. `agent.breaker` and `adaptive` know none; `retries` and `coverage` know an
    agent or a team, never both."""
    rules: dict[str, dict[str, Any]]
    """Rule → the settings that differ."""

    @model_validator(mode="after")
    def _checked(self) -> Override:
        """Fail now, not when the first call matches."""
        Rules.model_validate(self.rules)
        deaf = [name for name in self.rules if self.tool is not None and name not in _OF_STEPS]
        if deaf:
            raise ValueError(f"an override for a tool cannot change {', '.join(deaf)}: only rules on steps know it")
        self._check_scopes()
        return self

    def _check_scopes(self) -> None:
        """Rules that look beyond one session are asked by the name of what they look at."""
        if "fanout" in self.rules and (self.agent is not None or self.team is not None):
            raise ValueError("an override for an agent or a team cannot change fanout: a trace is of many of them")
        deaf = [name for name in _OF_AGENTS if name in self.rules and self.team is not None]
        if deaf:
            raise ValueError(f"an override for a team cannot change {', '.join(deaf)}: an agent may be of many teams")
        either = [name for name in ("retries", "coverage") if name in self.rules]
        if either and self.agent is not None and self.team is not None:
            raise ValueError(
                f"an override for an agent and a team together cannot change {', '.join(either)}: it looks at either"
            )


class Policy(Record):
    """Everything the core is told."""

    v: int = SCHEMA_VERSION
    """Schema version."""
    mode: Literal["observe", "enforce"] = "observe"
    """`observe`: everything is decided and shown, nothing is enforced."""
    rules: Rules = Rules()
    """The rules."""
    overrides: tuple[Override, ...] = ()
    """Exceptions, applied in order."""
    budgets: tuple[Budget, ...] = ()
    """What may be spent, by scope and period, beside the rule `budget.session`."""
    tools: tuple[ToolRule, ...] = Field(default=(), max_length=MAX_RULES)
    """Which tools agents may use; the first rule that holds for a call decides. Guards carry them out."""
    tools_default: ToolAction = "allow"
    """What becomes of a tool call for which none holds."""
    idle_timeout_s: float = Field(default=24 * 3600, gt=0)
    """A session without a call for this long is forgotten, seconds. Default a day: timers that wake an idle agent every
    half hour must find their session."""
