"""What models answer to CrewAI, which in older versions writes calls of tools as text."""

from __future__ import annotations

from crewai import hooks

from tests.frameworks.scripts import SEARCH
from tests.support.fake_provider import Reply

NEWER = hasattr(hooks, "HookAborted")
"""It calls tools as the provider does, and has a way to stop; before, it tries again after any error."""
CALL = SEARCH if NEWER else Reply('Thought: search\nAction: search\nAction Input: {"query": "spanfuse"}')
DONE = Reply("Thought: I now can give a great answer\nFinal Answer: All is well.")
