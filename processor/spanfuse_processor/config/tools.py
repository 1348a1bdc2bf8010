"""The section `tools`: which tools agents may use."""

from __future__ import annotations

from pydantic import Field

from spanfuse_processor.config.section import Section
from spanfuse_schemas import ToolAction, ToolRule
from spanfuse_schemas.tool_policy import MAX_RULES


class Tools(Section):
    """Rules on tools, which Guards carry out where an agent's code executes tools with `guard.tool`, an integration or the
    decorator. In mode `observe` they are counted, not enforced."""

    rules: tuple[ToolRule, ...] = Field(default=(), max_length=MAX_RULES)
    """The rules, in order; the first that holds for a call decides."""
    default: ToolAction = "allow"
    """What becomes of a call for which none holds."""
