"""What all sections of the configuration have in common."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, SecretStr, model_validator

from spanfuse_schemas import Rules
from spanfuse_schemas.rule import Settings


def without_nulls(model: type[BaseModel]) -> Callable[[Any], Any]:
    """A validator after which a key with nothing behind it means its default. Unknown keys stay, and are errors."""

    def drop(value: Any) -> Any:
        if value is None:
            return {}
        if not isinstance(value, dict):
            return value
        known = {field.alias or name for name, field in model.model_fields.items()}
        return {key: inner for key, inner in value.items() if inner is not None or key not in known}

    return drop


def listed(value: Any) -> Any:
    """For sections whose keys are off unless listed: a key with nothing behind it is on, with its defaults."""
    if isinstance(value, dict):
        return {key: {} if inner is None else inner for key, inner in value.items()}
    return value


def budgets_apart(rules: Rules) -> Rules:
    """A validator of rules: that on the budget of a session stands with the budgets."""
    if "budget_session" in rules.model_fields_set:
        raise ValueError("budget.session is set at budgets.session")
    return rules


def separated(value: Any) -> Any:
    """For lists that one environment variable may hold: a text is parted at its commas."""
    return tuple(value.split(",")) if isinstance(value, str) else value


class Section(Settings):
    """A frozen part of the configuration. Values are never shown in errors: any of them may be a secret."""

    model_config = ConfigDict(hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, value: Any) -> Any:
        return without_nulls(cls)(value)


def _endpoint(value: str) -> str:
    host, colon, port = value.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError("must be HOST:PORT, such as 127.0.0.1:4318")
    return value


Endpoint = Annotated[str, AfterValidator(_endpoint)]
"""An address to listen on, HOST:PORT; port 0 takes a free one."""
MaybeEndpoint = Annotated[str, AfterValidator(lambda value: value and _endpoint(value))]
"""The same; empty: none."""


def on_loopback(endpoint: str) -> bool:
    """Whether only this machine reaches an address, HOST:PORT."""
    host = endpoint.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def plain_secret(value: SecretStr) -> SecretStr:
    """A secret that fits into a header.

    Raises:
        ValueError: it does not. It is not shown.
    """
    secret = value.get_secret_value()
    if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ValueError("must be a text without spaces, in ASCII")
    return value
