"""Calls that come over HTTP, to `spanfuse proxy` and LiteLLM's: by which headers they say whose they are, and when a refusal
says to come again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spanfuse.blocked import Blocked

SESSION: Final = ("x-spanfuse-session-id", "x-loopers-session-id")
"""The session; ours, and Loopers' for agents that were made for that. The first that there is counts, of all here."""
AGENT: Final = ("x-spanfuse-agent",)
"""Name of the agent."""
USER: Final = ("x-spanfuse-user",)
"""Id of the user."""
TEAM: Final = ("x-spanfuse-team",)
"""The team that pays."""
BUDGET: Final = ("x-spanfuse-session-budget", "x-loopers-session-budget")
"""The most that the session may spend, USD."""
MAX_STEPS: Final = ("x-spanfuse-session-max-steps", "x-spanfuse-max-steps", "x-loopers-session-max-steps")
"""The most calls that the session may make."""
SESSION_IN_METADATA: Final = ("session_id", "thread_id", "conversation_id")
"""Names of a session in the `metadata` of a request, as ingest of spans knows them."""

FOREVER_S: Final = 3600
"""`Retry-After` of a refusal that ends by no time of its own, seconds: until somebody resets it, asking is in vain."""


def retry_after_s(refusal: Blocked) -> int:
    """`Retry-After` of a refusal, seconds, at least 1."""
    left = refusal.remaining_s()
    return FOREVER_S if left is None else max(1, left)
