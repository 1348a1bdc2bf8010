"""What the API listens on, and who may use it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from spanfuse_processor.config.section import Endpoint, Section, on_loopback, plain_secret

Role = Literal["read", "operate", "admin"]
"""What may be done: `read` looks; `operate` also resets breakers, orders budgets, tries policies and answers alerts; `admin`
also changes the policy and rebuilds the ledger's books."""

MIN_TOKEN_CHARS: Final = 16
"""Shortest token, characters: whoever reaches the port can try shorter ones until one is let in."""


class ApiToken(Section):
    """Who presents it, as `Authorization: Bearer TOKEN`, may do what its role says."""

    name: str = Field(pattern=r"^[A-Za-z0-9._@-]{1,64}$")
    """Whose it is, as orders show who gave them: letters, digits and `._@-`."""
    token: SecretStr
    """The token, of 16 characters at least, best as `${env:VAR}`. Never shown."""
    role: Role = "read"
    """`read`: look, as Guards do; `operate`: also reset breakers, order budgets, try policies and answer alerts; `admin`: also
    change the policy."""
    expires: datetime | None = None
    """From when on it is refused, such as `2027-01-31` or `2027-01-31T12:00:00Z`; UTC unless it says otherwise. Default:
    never."""

    @field_validator("token")
    @classmethod
    def _strong(cls, value: SecretStr) -> SecretStr:
        if len(plain_secret(value).get_secret_value()) < MIN_TOKEN_CHARS:
            raise ValueError(f"must have at least {MIN_TOKEN_CHARS} characters")
        return value

    @field_validator("expires")
    @classmethod
    def _in_utc(cls, value: datetime | None) -> datetime | None:
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


class Api(Section):
    """The REST and SSE surface."""

    endpoint: Endpoint = "127.0.0.1:8787"
    """Address to listen on, HOST:PORT; port 0 takes a free one. An address that other machines can reach needs `tokens`.
    Default: loopback only."""
    tokens: tuple[ApiToken, ...] = Field(default=(), max_length=100)
    """Who may use it. Default: everybody who reaches the port may do everything."""

    @field_validator("tokens")
    @classmethod
    def _apart(cls, value: tuple[ApiToken, ...]) -> tuple[ApiToken, ...]:
        if len({token.name for token in value}) < len(value):
            raise ValueError("two tokens have the same name")
        if len({token.token.get_secret_value() for token in value}) < len(value):
            raise ValueError("two names have the same token")
        return value

    @model_validator(mode="after")
    def _closed(self) -> Self:
        if not self.tokens and not on_loopback(self.endpoint):
            raise ValueError(f"{self.endpoint} can be reached from other machines: set tokens, or listen on 127.0.0.1")
        return self
