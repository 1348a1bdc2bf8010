"""Pydantic AI, as of version 2: a capability that guards the model and the tools of an agent, whichever they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability

from spanfuse.integrations._bound import default_guard
from spanfuse.integrations.pydantic_ai import GuardedModel, GuardedToolset

if TYPE_CHECKING:
    from spanfuse.guard import Guard


class GuardCapability(AbstractCapability[Any]):
    """Guards an agent: each request to its model, each of its tools.

    Args:
        guard: whom to ask; None: one for the process, which needs no server.
    """

    def __init__(self, guard: Guard | None = None) -> None:
        self._guard = guard or default_guard()

    def get_wrapper_model(self, model: Any) -> GuardedModel:
        """The model, guarded."""
        return GuardedModel(model, self._guard)

    def get_wrapper_toolset(self, toolset: Any) -> GuardedToolset:
        """The tools, guarded."""
        return GuardedToolset(toolset, self._guard)
