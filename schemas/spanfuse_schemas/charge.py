"""What was spent, by the scopes that share a budget."""

from __future__ import annotations

from spanfuse_schemas.record import SCHEMA_VERSION, Record


class Charge(Record):
    """Spend of one budget scope by the calls of one incoming batch."""

    v: int = SCHEMA_VERSION
    """Schema version."""
    scope: str
    """`agent:<name>`, `user:<id>`, `team:<name>` or `global:*`; a session's spend is kept with the session."""
    source: str
    """Where the batch came from, such as `spanfuse.calls-3`."""
    offset: int
    """Position of the batch in `source`. (scope, source, offset) is the identity under which a charge counts once;
    within a scope and source it only grows, so a reader drops what is not above the last one it saw."""
    cost_nano_usd: int
    """Cost, nano-dollars."""
    calls: int
    """Model calls."""
    input_tokens: int = 0
    """Input tokens."""
    output_tokens: int = 0
    """Output tokens."""
    at_ns: int
    """End of the latest call, nanoseconds since the Unix epoch: decides the budget period."""
