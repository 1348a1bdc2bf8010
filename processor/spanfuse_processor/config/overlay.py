"""Sections of the configuration that an operator lays over those of the file, for a while."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BeforeValidator, ConfigDict, field_validator, model_validator

from spanfuse_processor.config.budgets import Budgets
from spanfuse_processor.config.section import budgets_apart, without_nulls
from spanfuse_processor.config.tools import Tools
from spanfuse_schemas import Override, Policy, Rules
from spanfuse_schemas.rule import Settings

if TYPE_CHECKING:
    from spanfuse_processor.config.models import Config

WHOLE: Final = ("budgets", "policies", "tools")
"""Sections that are replaced as a whole."""


class Overlay(Settings):
    """Sections in place of the file's, each as in the file; those that are not given stay as they are. Of `detectors` each rule
    that is given is replaced, and the others stay; every other section is replaced as a whole."""

    model_config = ConfigDict(hide_input_in_errors=True)

    mode: Literal["observe", "enforce"] | None = None
    """In place of `service.mode`."""
    detectors: Annotated[Rules, BeforeValidator(without_nulls(Rules))] | None = None
    """Rules, by name. Of a rule that is given, what is left out holds its default."""
    budgets: Budgets | None = None
    """What may be spent."""
    policies: tuple[Override, ...] | None = None
    """Exceptions for an agent, a tool or a team."""
    tools: Tools | None = None
    """Which tools agents may use."""

    @model_validator(mode="before")
    @classmethod
    def _given(cls, value: Any) -> Any:
        return {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value

    @field_validator("detectors")
    @classmethod
    def _budgets_apart(cls, value: Rules | None) -> Rules | None:
        return value if value is None else budgets_apart(value)

    def __bool__(self) -> bool:
        return bool(self.model_fields_set)

    def over(self, config: Config) -> Config:
        """A configuration with these sections in place of its own."""
        update: dict[str, Any] = {name: found for name in WHOLE if (found := getattr(self, name)) is not None}
        if self.detectors is not None:
            rules = {name: getattr(self.detectors, name) for name in self.detectors.model_fields_set}
            update["detectors"] = config.detectors.model_copy(update=rules)
        if self.mode is not None:
            update["service"] = config.service.model_copy(update={"mode": self.mode})
        return config.model_copy(update=update)


def digest(policy: Policy) -> str:
    """What a policy says, in 16 hex digits: an overlay holds while the file under it says the same."""
    return hashlib.blake2b(policy.to_json(), digest_size=8).hexdigest()
