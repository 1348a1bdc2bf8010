"""What an operator has laid over the configuration file: an order that every host applies while its file says the same."""

from __future__ import annotations

import logging
from typing import Any

from pydantic import Field, ValidationError

from spanfuse_processor.api.console import OverlayNotice
from spanfuse_processor.config import Config
from spanfuse_processor.config.overlay import Overlay, digest
from spanfuse_processor.errors import StateError
from spanfuse_schemas.record import SCHEMA_VERSION, Record

log = logging.getLogger(__name__)


class PolicyOrder(Record):
    """A record of the topic `spanfuse.policy`, and of the embedded host's storage; the last one holds."""

    v: int = SCHEMA_VERSION
    """Schema version."""
    overlay: dict[str, Any] = Field(default_factory=dict)
    """The sections, as they are written in a file; empty: what was laid over it is taken away."""
    base: str
    """`digest` of the policy of the file that it was laid over; it holds for that one alone."""
    actor: str = ""
    """Who ordered it."""
    reason: str = ""
    """Why."""
    at_ns: int = Field(ge=0, lt=2**63)
    """When, nanoseconds since the Unix epoch."""

    @classmethod
    def of(cls, overlay: Overlay, file: Config, actor: str, reason: str, at_ns: int) -> PolicyOrder:
        """An order to lay sections over a file."""
        sections = overlay.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return cls(overlay=sections, base=digest(file.policy()), actor=actor, reason=reason, at_ns=at_ns)

    def read(self) -> Overlay:
        """The sections.

        Raises:
            StateError: another build has written them.
        """
        try:
            return Overlay.model_validate(self.overlay)
        except ValidationError as error:
            raise StateError(f"what was laid over the configuration cannot be read: {error}") from None

    def holds(self, file: Config) -> bool:
        """Whether the file says what it said when this was laid over it."""
        return bool(self.overlay) and self.base == digest(file.policy())

    def notice(self, file: Config) -> OverlayNotice | None:
        """As operators are shown it; none: nothing is laid over the file."""
        if not self.overlay:
            return None
        return OverlayNotice(
            overlay=self.read(), actor=self.actor, reason=self.reason, at_ns=self.at_ns, in_force=self.holds(file)
        )


def order_of(data: bytes | None) -> PolicyOrder | None:
    """An order as it was kept; none: there is none, or another build has written it."""
    if not data:
        return None
    try:
        order: PolicyOrder = PolicyOrder.from_json(data)
        order.read()
    except (ValidationError, StateError) as error:
        log.warning("what an operator had laid over the configuration is left out: %s", error)
        return None
    return order


def overlaid(file: Config, order: PolicyOrder | None) -> Config:
    """What is in force: the file, with what was laid over it."""
    return order.read().over(file) if order is not None and order.holds(file) else file
