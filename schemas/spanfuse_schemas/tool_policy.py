"""Which tools an agent may use, as rules that are data: they stand in a file, travel, and mean the same everywhere."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from spanfuse_schemas.linear import LinearPattern
from spanfuse_schemas.rule import Settings

ToolAction = Literal["allow", "ask", "deny"]
Scalar = bool | int | float | str
FieldPath = Annotated[str, Field(min_length=1, max_length=256)]

MAX_RULES: Final = 1_000
"""Rules of one policy: each is looked at for each tool call in turn."""


class Matcher(Settings):
    """What a field of a tool's arguments has to be; all that is given has to hold, and something has to be given.

    For `deny` and `ask` a list is met by any of its elements, for `allow` by all of them: what is in doubt is not granted. A
    value that an operator cannot judge, such as `below` on a word, denies.
    """

    equals: Scalar | None = None
    """This value; `5` and `"5"` are one."""
    one_of: tuple[Scalar, ...] = Field(default=(), alias="in", max_length=1_000)
    """One of these."""
    contains: str = Field(default="", max_length=1_000)
    """A text with this in it."""
    starts_with: str = Field(default="", max_length=1_000)
    """A text that begins so."""
    ends_with: str = Field(default="", max_length=1_000)
    """A text that ends so."""
    matches: str = Field(default="", max_length=1_000)
    """A regular expression that is found in the text; `(?i)` in front: in capitals or not. Without back references and looking
    around, so that no text makes its search slow."""
    above: float | None = None
    """A number larger than this."""
    below: float | None = None
    """A number smaller than this."""

    model_config = Settings.model_config | {
        "validate_by_alias": True,
        "validate_by_name": True,
        "serialize_by_alias": True,
    }

    @field_validator("matches")
    @classmethod
    def _linear(cls, value: str) -> str:
        LinearPattern(value)
        return value

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.model_dump(exclude_defaults=True):
            raise ValueError("say what the field has to be, such as `contains`")
        return self

    @cached_property
    def pattern(self) -> LinearPattern:
        """`matches`, ready to be searched for."""
        return LinearPattern(self.matches)


class ToolRule(Settings):
    """One rule on tools. It holds for a call where all that it names does; the first that holds decides."""

    tool: str = Field(min_length=1, max_length=256)
    """Name of the tool; `*` and `?` as in a shell."""
    action: ToolAction
    """`allow`; `deny`; `ask`: whoever runs the agent has a handler that answers, and without one it is denied."""
    agent: str | None = Field(default=None, max_length=256)
    """Name of the agent; `*` and `?` as in a shell."""
    team: str | None = Field(default=None, max_length=256)
    """Name of the team; `*` and `?` as in a shell."""
    arguments: dict[FieldPath, Matcher] = Field(default_factory=dict, max_length=32)
    """Field of the arguments → what it has to be. `to.0.address` leads into objects and lists; `*` is any text in the
    arguments, wherever it stands. A field that is not there meets nothing."""
    max_calls: int | None = Field(default=None, ge=0, lt=2**53)
    """Executions that this rule lets through in one session, in each process; then it denies."""
    reason: str = Field(default="", max_length=500)
    """Why, for the agent and for people."""

    @model_validator(mode="after")
    def _counts(self) -> Self:
        if self.action == "deny" and self.max_calls is not None:
            raise ValueError("what is denied is not counted: max_calls belongs to allow or ask")
        return self
