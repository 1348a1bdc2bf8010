"""The section `exporters.alerts`: who is told of what, and how."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, Self

from pydantic import ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from spanfuse_processor.config.section import Section, listed

Severity = Literal["info", "warning", "critical"]

_NAME: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)


def _is_url(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not text.startswith(("https://", "http://")) or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("must be a URL, https:// or http://")
    return value


class Slack(Section):
    """A channel of Slack, by an incoming webhook."""

    url: SecretStr
    """URL of the webhook, which is a secret, best as `${env:VAR}`. Never shown."""

    _url = field_validator("url")(_is_url)


class PagerDuty(Section):
    """A service of PagerDuty, by an integration of Events API v2. What is acknowledged here is acknowledged there, and what is
    over is resolved."""

    routing_key: SecretStr
    """Its integration key, best as `${env:VAR}`. Never shown."""
    url: str = Field(default="https://events.pagerduty.com/v2/enqueue", pattern=r"^https?://[^\s]+$")
    """Where events go; `https://events.eu.pagerduty.com/v2/enqueue` for accounts in Europe."""


class Webhook(Section):
    """A service of one's own, which is sent JSON by POST."""

    url: SecretStr
    """Where to. Never shown, as it may hold a token."""
    secret: SecretStr = SecretStr("")
    """What signs the body, in the header `X-Spanfuse-Signature`. Default: none; then whoever knows the URL can send alerts."""
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    """Header → value, sent along. Values are never shown."""

    _url = field_validator("url")(_is_url)

    @field_validator("headers")
    @classmethod
    def _sendable(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, secret in value.items():
            text = secret.get_secret_value()
            if not re.fullmatch(r"[A-Za-z0-9-]+", name) or not text.isascii() or not text.isprintable():
                raise ValueError("names are of letters, digits and dashes, values are printable ASCII")
        return value


class Smtp(Section):
    """Addresses that get e-mail, as text and as HTML."""

    server: str
    """The mail server, HOST:PORT."""
    sender: str = Field(alias="from")
    """Address that it comes from."""
    to: tuple[str, ...] = Field(min_length=1, max_length=100)
    """Addresses that it goes to."""
    tls: Literal["starttls", "tls", "none"] = "starttls"
    """`starttls`: the connection is encrypted before anything is said, or nothing is sent; `tls`: from its beginning, as on
    port 465; `none`: never, for a server on the same machine."""
    username: str = ""
    """User, where the server wants one."""
    password: SecretStr = SecretStr("")
    """Its password, best as `${env:VAR}`. Never shown, and never sent without TLS."""
    ca_file: str = ""
    """File of the certificates to trust, PEM. Default: those of the system."""

    @field_validator("server")
    @classmethod
    def _server(cls, value: str) -> str:
        host, colon, port = value.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError("must be HOST:PORT, such as smtp.example.com:587")
        return value

    @field_validator("sender", "to")
    @classmethod
    def _addresses(cls, value: Any) -> Any:
        for one in (value,) if isinstance(value, str) else value:
            if not re.fullmatch(r"[^\s@<>,;:\"]+@[^\s@<>,;:\"]+", one):
                raise ValueError("must be an address, such as oncall@example.com")
        return value

    @model_validator(mode="after")
    def _kept_secret(self) -> Self:
        if self.username and self.tls == "none":
            raise ValueError("a password is not sent without TLS: set tls: starttls or tls")
        return self


class Log(Section):
    """The log of the process, a line each."""


KINDS: Final[Mapping[str, type[Section]]] = {
    "slack": Slack, "pagerduty": PagerDuty, "webhook": Webhook, "smtp": Smtp, "log": Log,
}  # fmt: skip
"""What stands before the slash of a receiver's name → its settings."""


class AlertReceivers(Section):
    """By name: what it is, alone or with a name after it, such as `slack` or `slack/oncall`. Those that are listed are on."""

    model_config = ConfigDict(extra="allow")

    slack: Slack | None = None
    """Slack."""
    pagerduty: PagerDuty | None = None
    """PagerDuty."""
    webhook: Webhook | None = None
    """Any other service."""
    smtp: Smtp | None = None
    """E-mail."""
    log: Log | None = None
    """The log."""

    @model_validator(mode="before")
    @classmethod
    def _checked(cls, value: Any) -> Any:
        """Each by its kind, with all that is wrong with any of them."""
        if not isinstance(value, dict):
            return value
        problems: list[InitErrorDetails] = []
        made = {key: _receiver(key, inner, problems) for key, inner in listed(value).items()}
        if problems:
            raise ValidationError.from_exception_data("receivers", problems)
        return made

    def named(self) -> dict[str, Section]:
        """Name → its settings."""
        plain = {kind: found for kind in KINDS if (found := getattr(self, kind)) is not None}
        return plain | (self.__pydantic_extra__ or {})


def _receiver(key: str, value: Any, problems: list[InitErrorDetails]) -> Any:
    kind, slash, name = key.partition("/")
    if isinstance(value, Section):
        return value
    if kind not in KINDS:
        problems.append(_problem((key,), "receiver", f"unknown kind of receiver; known are {', '.join(KINDS)}"))
    elif slash and not _NAME.fullmatch(name):
        problems.append(_problem((key,), "receiver", "after the kind comes a name of letters, digits, dots and dashes"))
    else:
        try:
            return KINDS[kind].model_validate(value)
        except ValidationError as error:
            problems += [_problem((key, *e["loc"]), e["type"], e["msg"]) for e in error.errors(include_input=False)]
    return None


def _problem(where: tuple[str | int, ...], kind: str, text: str) -> InitErrorDetails:
    text = text.removeprefix("Value error, ")
    return InitErrorDetails(type=PydanticCustomError(kind, "{text}", {"text": text}), loc=where, input=None)


class Route(Section):
    """Alerts for which all of it holds go to these receivers. The first that holds decides."""

    rule: str = Field(default="*", max_length=256)
    """The rule, such as `budget.*`; `*` and `?` stand for any text and any character."""
    severity: Severity = "info"
    """At least so much."""
    agent: str = Field(default="*", max_length=256)
    """The agent, likewise."""
    team: str = Field(default="*", max_length=256)
    """The team, likewise."""
    receivers: tuple[str, ...] = Field(default=(), max_length=100)
    """Names of receivers. Default: none; nobody is told."""
    go_on: bool = Field(default=False, alias="continue")
    """Look at the routes behind it, too."""


class Spike(Section):
    """`spend.spike`: an agent, a team or all spent many times of what they usually spend in an hour; with who spent most."""

    enabled: bool = True
    """Whether it is looked at."""
    factor: float = Field(default=3, gt=1, allow_inf_nan=False)
    """So many times the mean hour of the last seven days. Default 3, as a working day against its nights does not reach it."""
    floor_usd: float = Field(default=1, ge=0, allow_inf_nan=False)
    """Spent in the hour, at least, USD: three times of next to nothing is nothing."""
    min_hours: int = Field(default=24, ge=1, le=168)
    """Hours that have to be known. Default a day, so that a night is among them."""


class BlockRate(Section):
    """`policy.block_rate`: so many of the sessions at work are stopped that it is rather the policy that is wrong."""

    enabled: bool = True
    """Whether it is looked at."""
    share: float = Field(default=0.2, gt=0, le=1)
    """Share of the sessions at work, from which on it fires."""
    min_sessions: int = Field(default=20, ge=1, le=1_000)
    """Sessions at work, at least."""
    window_s: float = Field(default=600, gt=0, le=86_400)
    """A session is at work that made a call within this time, seconds."""


class Silence(Section):
    """`source.silent`: an agent that used to send spans sends none, or nobody does."""

    enabled: bool = True
    """Whether it is looked at."""
    after_s: float = Field(default=900, ge=60, allow_inf_nan=False)
    """Silence of so long, at least, seconds."""
    factor: float = Field(default=3, ge=1, allow_inf_nan=False)
    """And of so many times its longest silence before."""
    min_active: int = Field(default=30, ge=1, le=10_000)
    """Minutes in which it was at work before, at least: who worked for ten minutes and went home is not missed."""


class Unpriced(Section):
    """`price.unknown`: a model without a known price is used, for the first time; its calls cost the fallback."""

    enabled: bool = True
    """Whether it is looked at."""


class Health(Section):
    """`health.*`: requests that could not be read or applied, a storage or ledger that does not answer."""

    enabled: bool = True
    """Whether it is looked at."""


class Watch(Section):
    """What is looked at beside what rules find, each as an alert of its own."""

    interval_s: float = Field(default=60, ge=0.05, le=3_600)
    """How often, seconds."""
    spike: Spike = Spike()
    """Spend."""
    block_rate: BlockRate = BlockRate()
    """Sessions that are stopped."""
    silence: Silence = Silence()
    """Sources."""
    unpriced: Unpriced = Unpriced()
    """Prices."""
    health: Health = Health()
    """This service."""


class Alerts(Section):
    """Tells people what happens, apart from the detection: a receiver that is away costs it nothing."""

    receivers: AlertReceivers = AlertReceivers()
    """Who can be told."""
    routes: tuple[Route, ...] = Field(default=(), max_length=200)
    """Who is told of what, in order. Default: every receiver, of warnings and what is worse."""
    window_s: float = Field(default=3_600, ge=1, le=30 * 86_400)
    """An alert is told once within this time, seconds, or within the period of its budget. Default an hour: what goes on is
    known by then, and what comes back is news."""
    resolve_after_s: float = Field(default=900, ge=1, le=86_400)
    """What nothing holds is over when it was not seen for so long, seconds."""
    base_url: str = Field(default="", pattern=r"^(https?://[^\s<>\"]+)?$")
    """Where people reach the page, such as `https://spanfuse.example.com`, for links. Default: no links."""
    queue: int = Field(default=1_000, ge=1, le=100_000)
    """Messages that wait for one receiver; of more the oldest are dropped, and counted."""
    timeout_s: float = Field(default=10, gt=0, le=120)
    """How long a receiver may take to answer, seconds; then it is tried again."""
    give_up_after_s: float = Field(default=1_800, ge=0, le=86_400)
    """How long a message is tried again, seconds. Default half an hour: what is older is seen on the page."""
    watch: Watch = Watch()
    """What is looked at beside what rules find."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        for problem in self._unknown():
            raise ValueError(problem)
        return self

    def _unknown(self) -> Iterator[str]:
        names = self.receivers.named()
        for at, route in enumerate(self.routes):
            for name in route.receivers:
                if name not in names:
                    yield f"routes[{at}]: there is no receiver {name}; there are {', '.join(names) or 'none'}"
