"""The sections of the configuration. Every field says what it is, in which unit, and why its default is what it is."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator

from spanfuse_processor.config.api import Api
from spanfuse_processor.config.budgets import Budgets
from spanfuse_processor.config.exporters import Exporters
from spanfuse_processor.config.kafka import KafkaSettings
from spanfuse_processor.config.otlp import OtlpReceiver
from spanfuse_processor.config.section import Section, budgets_apart, listed, separated, without_nulls
from spanfuse_processor.config.telemetry import Telemetry
from spanfuse_processor.config.tools import Tools
from spanfuse_schemas import Override, Policy, Rules
from spanfuse_schemas.signing import Keyring

AttributeName = Annotated[str, Field(min_length=1, max_length=256)]
MAX_ATTRIBUTES: Final = 32
"""Attributes that may name one thing: each is looked up on every span."""


class Receivers(Section):
    """Where spans come from. The receivers that are listed are on."""

    otlp: OtlpReceiver | None = None
    """OTLP, for `spanfuse up`; in the file of a worker: it takes OTLP besides what comes over Kafka."""
    kafka: KafkaSettings | None = None
    """Kafka, for `spanfuse worker`."""

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, value: Any) -> Any:
        return listed(value)


class Identity(Section):
    """Attributes of your own that say whose a call is, beside those that libraries are known to write. On each span they are
    looked for first, in their order; then those of libraries; then on its ancestors; last on the resource."""

    session: tuple[AttributeName, ...] = Field(default=(), max_length=MAX_ATTRIBUTES)
    """Of the session. A name that stands on the resource makes all that the process does one session."""
    session_within: tuple[AttributeName, ...] = Field(default=(), max_length=MAX_ATTRIBUTES)
    """Attributes of the resource within which a session id is unique, such as `[service.name]` where services make ids that may
    collide. The session is then called `<service>/<id>`, and Guards have to call it so, too. Default: an id is one session,
    whichever services work on it."""
    user: tuple[AttributeName, ...] = Field(default=(), max_length=MAX_ATTRIBUTES)
    """Of the user."""
    team: tuple[AttributeName, ...] = Field(default=(), max_length=MAX_ATTRIBUTES)
    """Of the team, such as `tenant.id`."""
    agent: tuple[AttributeName, ...] = Field(default=(), max_length=MAX_ATTRIBUTES)
    """Of the agent. On an ancestor it counts where that is the span of an agent."""


class ModelPricing(Section):
    """The price of a model, USD per million tokens."""

    input_usd_per_mtok: float = Field(ge=0, le=1_000_000, allow_inf_nan=False)
    """Input tokens."""
    output_usd_per_mtok: float = Field(ge=0, le=1_000_000, allow_inf_nan=False)
    """Output tokens."""
    cache_read_usd_per_mtok: float | None = Field(default=None, ge=0, le=1_000_000, allow_inf_nan=False)
    """Input tokens read from the provider's cache. Default: as input."""
    cache_write_usd_per_mtok: float | None = Field(default=None, ge=0, le=1_000_000, allow_inf_nan=False)
    """Input tokens written to the provider's cache. Default: as input."""


class Pricing(Section):
    """What calls cost that do not report their cost. List prices of known models are built in."""

    fallback_input_usd_per_mtok: float = Field(default=5.0, ge=0, le=1_000_000, allow_inf_nan=False)
    """Input tokens of a model without a known price, USD per million. Default 5, as the large models of 2025 cost: too
    high is noticed, too low is paid."""
    fallback_output_usd_per_mtok: float = Field(default=15.0, ge=0, le=1_000_000, allow_inf_nan=False)
    """Output tokens of a model without a known price, USD per million."""
    models: dict[str, ModelPricing] = Field(default_factory=dict)
    """Model, or `provider/model`, → the price to use in place of the list price, or of none."""
    file: str = ""
    """YAML or JSON file of more `models`, relative to this one. `models` here win over it. Default: none."""


class Storage(Section):
    """Where `spanfuse up` keeps its state."""

    path: str = "spanfuse.db"
    """SQLite file; `""`: memory only, forgotten at the end. Default: a file in the working directory."""


class LedgerSettings(Section):
    """The books of strict budgets. Guards reserve from them; here the budgets, the mode and prices are published, and what was
    spent is compared with what the spans tell."""

    address: SecretStr
    """`redis://HOST:PORT/DB` (also `rediss` and `unix`) or `sqlite:///PATH`; parameters after `?`: `tenant`, `cluster=1`,
    `timeout_ms`."""
    compare_interval_s: float = Field(default=30, gt=0, allow_inf_nan=False)
    """How often what was spent is compared, seconds."""

    @field_validator("address")
    @classmethod
    def _known(cls, value: SecretStr) -> SecretStr:
        scheme = value.get_secret_value().partition("://")[0]
        if scheme not in ("redis", "rediss", "unix", "sqlite"):
            raise ValueError("a ledger is at redis://, rediss://, unix:// or sqlite:///")
        return value


class ReadModelSettings(Section):
    """Where workers write what people are shown: sessions and their steps, detections, minutes; bounded and for a day. A Redis
    that is away costs detection nothing."""

    address: SecretStr
    """`redis://HOST:PORT/DB` (also `rediss` and `unix`); parameters after `?`: `tenant`, `cluster=1`, `timeout_ms`. It may be
    that of the ledger."""


class Extensions(Section):
    """What is not on the way of the data."""

    api: Api = Api()
    """REST and SSE."""
    storage: Storage = Storage()
    """State."""
    ledger: LedgerSettings | None = None
    """Books of strict budgets. Default: none; then nobody can reserve."""
    readmodel: ReadModelSettings | None = None
    """What people are shown of workers, by `spanfuse api`. Default: none; `spanfuse up` keeps it in its storage."""


class Service(Section):
    """The whole."""

    mode: Literal["observe", "enforce"] = "observe"
    """`observe`: everything is decided and shown, nothing is enforced; `enforce`: Guards refuse calls. Default `observe`:
    look before you stop somebody's agent."""
    idle_timeout_s: float = Field(default=24 * 3600, gt=0, allow_inf_nan=False)
    """A session without a call for this long is forgotten, seconds. Default a day: a timer that wakes an idle agent every
    half hour must find its session."""
    fingerprint_key: SecretStr = SecretStr("")
    """Secret under which the words and fields of tool arguments are hashed, so that no dictionary gives them away. It protects
    these alone: the prints of whole texts (`action`, `input`, `answers`, `output`) are hashes without a key, and whoever
    guesses the whole text can confirm it. All workers that take spans of the same sessions need the same one. Default: a random
    one for each process."""
    signing_key: Annotated[tuple[SecretStr, ...], BeforeValidator(separated)] = ()
    """Secrets that sign what Guards are told, of 16 characters at least, a list or separated by commas; the first signs. Guards
    that have a key obey nothing that is not signed with one of theirs. Give them a new key before it comes first here. Default:
    none; then whoever may write the control topic decides."""
    telemetry: Telemetry = Telemetry()
    """Metrics, traces and logs of its own; docs/telemetry.md tells how to use them."""

    @field_validator("signing_key")
    @classmethod
    def _long_enough(cls, value: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        Keyring(key.get_secret_value() for key in value)
        return value

    def keys(self) -> Keyring:
        """What signs."""
        return Keyring(key.get_secret_value() for key in self.signing_key)


class Config(Section):
    """The configuration."""

    receivers: Receivers = Receivers(otlp=OtlpReceiver())
    """Where spans come from. Default: OTLP."""
    identity: Identity = Identity()
    """Whose the spans are."""
    detectors: Annotated[Rules, BeforeValidator(without_nulls(Rules))] = Rules()
    """Rules, by name: how each is set."""
    budgets: Budgets = Budgets()
    """What may be spent, by whom, in which time."""
    policies: tuple[Override, ...] = ()
    """Exceptions from `detectors` for an agent, a tool or a team; later ones win."""
    tools: Tools = Tools()
    """Which tools agents may use."""
    pricing: Pricing = Pricing()
    """Prices of models."""
    exporters: Exporters = Exporters()
    """Where outcomes go."""
    extensions: Extensions = Extensions()
    """API and storage."""
    service: Service = Service()
    """Mode and times."""

    @field_validator("detectors")
    @classmethod
    def _budgets_apart(cls, value: Rules) -> Rules:
        return budgets_apart(value)

    def hints(self) -> list[str]:
        """What is no mistake, and may not do what was meant."""
        found = []
        strict = [budget.name for budget in self.policy().budgets if budget.strength == "strict"]
        if strict and self.extensions.ledger is None:
            found.append(
                f"{', '.join(strict)}: strict, but without extensions.ledger no Guard can reserve; spans are counted"
            )
        if self.service.mode == "observe" and (self.tools.rules or self.tools.default != "allow"):
            found.append("tools: what they deny is counted and executed, since service.mode is observe")
        if (alerts := self.exporters.alerts) is not None and not alerts.receivers.named():
            found.append("exporters.alerts: without receivers nobody is told; GET /v1/alerts lists them")
        return found

    def policy(self) -> Policy:
        """What the core is told."""
        return Policy(
            mode=self.service.mode,
            rules=self.detectors.model_copy(update={"budget_session": self.budgets.session}),
            overrides=self.policies,
            budgets=self.budgets.named(),
            tools=self.tools.rules,
            tools_default=self.tools.default,
            idle_timeout_s=self.service.idle_timeout_s,
        )
