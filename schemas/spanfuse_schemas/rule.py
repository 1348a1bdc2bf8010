"""What the settings of every rule have."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from spanfuse_schemas.detection import Mode


class Settings(BaseModel):
    """Settings that people write: unknown keys are errors, so that a typing mistake never silently changes nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class Rule(Settings):
    """What every rule has."""

    mode: Mode = "block"
    """`off`; `shadow`: recorded, not carried out; `warn`: recorded; `nudge`: a text for the agent; `block`."""
