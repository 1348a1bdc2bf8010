"""The policy in force, told to Guards over the way by which decisions come."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from spanfuse_schemas.policy import Policy
from spanfuse_schemas.record import SCHEMA_VERSION, Record

POLICY_KEY: Final = "policy:*"
"""Key of the policy in the control topic, beside those of breakers."""


class PolicyNotice(Record):
    """The policy in force. A reader that cannot read it, since it is newer, keeps the one that it has."""

    v: int = SCHEMA_VERSION
    """Schema version."""
    key: Literal["policy:*"]
    """Always the same: it is for everybody."""
    epoch: int = Field(ge=0, lt=2**63)
    """Grows with every change; the highest holds. It is the time of the change, milliseconds since the Unix epoch, so that it
    grows over restarts and from worker to worker."""
    issued_at_ns: int
    """When it was published, nanoseconds since the Unix epoch."""
    policy: Policy
    """The policy."""
    signature: str = ""
    """Optional HMAC over the other fields."""
