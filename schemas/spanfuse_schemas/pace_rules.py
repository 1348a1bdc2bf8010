"""Settings of the rules on pace and spending. All of them warn by default: speed and cost are no proof of a loop."""

from __future__ import annotations

from pydantic import Field, model_validator

from spanfuse_schemas.detection import Mode
from spanfuse_schemas.rule import Rule


class Pace(Rule):
    """A rule that warns."""

    mode: Mode = "warn"
    """Default `warn`: speed or cost alone is no proof of a loop."""


class Velocity(Pace):
    """`velocity`: model calls per minute against the session's own baseline. Calls that overlap count as one, embeddings not
    at all."""

    factor: float = Field(default=5, gt=1)
    """Multiple of the baseline (median of the last ten closed minutes with calls) that fires. Default 5: the busiest minute of
    a healthy agent is two to three times its usual one."""
    floor_per_min: int = Field(default=30, ge=1)
    """Never fires below this, calls per minute. Default 30: one every two seconds, as fast as small models answer in turn."""
    ceiling_per_min: int = Field(default=240, ge=1)
    """Always fires above this, calls per minute, whatever the baseline; parallel siblings of one parent are one call. Default
    240: four a second, which no agent that waits for answers reaches."""


class VelocityCost(Pace):
    """`velocity.cost`: money per minute against the session's own baseline."""

    factor: float = Field(default=5, gt=1)
    """Multiple of the baseline (median of the last ten closed minutes with costs) that fires. Default 5: as `velocity`."""
    floor_usd_per_min: float = Field(default=2, gt=0)
    """Never fires below this, USD per minute. Default 2: more than a single call with a full context costs, so that one dear
    call is no burst."""
    ceiling_usd_per_min: float = Field(default=10, gt=0)
    """Always fires above this, USD per minute, whatever the baseline. Default 10: 600 an hour for one session."""


class VelocityBurn(Pace):
    """`velocity.burn`: the same large context is sent again and again, and nothing comes of it."""

    count: int = Field(default=4, ge=2)
    """Calls in a row that fire. Default 4: a compaction and two retries of it are three."""
    min_input_tokens: int = Field(default=50_000, ge=1)
    """Smaller calls are passed over, input tokens. Default 50,000: below, a call costs a few cents."""
    max_output_share: float = Field(default=0.01, gt=0, lt=1)
    """A call that brings more than this share of its input as output is work. Default 0.01: a summary is longer."""
    max_gap_s: float = Field(default=3600, gt=0)
    """A call this long after the one before begins a new row, seconds. Default an hour, so that slow timers are found too."""


class SpendIdle(Pace):
    """`spend.idle`: an idle agent is woken again and again with a large context, for nothing."""

    count: int = Field(default=4, ge=2)
    """Wakings in a row that fire. Default 4: a user who comes back now and then for a "yes" does so less often."""
    min_pause_s: float = Field(default=300, gt=0)
    """Pause that makes a waking, seconds. Default 300: providers' caches live about as long, so each waking is paid in full."""
    min_input_tokens: int = Field(default=20_000, ge=1)
    """Smaller calls are passed over, input tokens. Default 20,000: a heartbeat with a fresh context is how it should be."""
    max_output_tokens: int = Field(default=100, ge=0)
    """A call that answers more than this is work, output tokens. Default 100: "OK", or a sentence or two."""


class SpendCreep(Pace):
    """`spend.creep`: calls cost many times what the session's first ones did."""

    factor: float = Field(default=5, gt=1)
    """Multiple of the median cost of the first calls. Default 5: a history that has grown fivefold is due for a compaction."""
    floor_usd: float = Field(default=0.20, gt=0)
    """Never fires on cheaper calls, USD. Default 0.20: a healthy agent's fiftieth call costs half of it, however many
    times its first ones; from here an hour of work costs tens of dollars."""
    first_calls: int = Field(default=10, ge=1, le=50)
    """Calls that make the median. Default 10: enough that a cheap greeting or one long answer does not decide."""
    count: int = Field(default=5, ge=1)
    """Calls above both limits, net of those under them since, that fire. Default 5: one long answer is no creep."""


class Context(Pace):
    """`context.*`: input tokens against the model's context window, each tier told once until the context has shrunk."""

    mode: Mode = "warn"
    """Default `warn`. With `block` only the blocking tier blocks, and the others warn."""
    warning_at: float = Field(default=0.70, gt=0, le=1)
    """Share of the window for `context.warning`. Default 0.70: time to plan a compaction."""
    error_at: float = Field(default=0.85, gt=0, le=1)
    """Share for `context.error`. Default 0.85: one large tool result more may not fit."""
    blocking_at: float = Field(default=0.95, gt=0, le=1)
    """Share for `context.blocking`. Default 0.95: what is left is needed for the answer."""
    windows: dict[str, int] = Field(default_factory=dict)
    """Model's name (`*` and `?` as in a shell) → its window, tokens; the first that matches, before the bundled table. A model
    that neither knows is passed over."""

    @model_validator(mode="after")
    def _ordered(self) -> Context:
        if not self.warning_at < self.error_at < self.blocking_at:
            raise ValueError("warning_at, error_at and blocking_at must grow in this order")
        small = [name for name, tokens in self.windows.items() if tokens < 1]
        if small:
            raise ValueError(f"a window must hold at least one token: {', '.join(small)}")
        return self
