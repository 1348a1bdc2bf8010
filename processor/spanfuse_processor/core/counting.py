"""What a call adds to the sums of its session."""

from __future__ import annotations

from collections.abc import Collection

from spanfuse_processor.core.recent import Counted
from spanfuse_processor.core.session import MAX_TOOLS, OTHER, SessionState
from spanfuse_schemas import Call, Tokens


def count(session: SessionState, call: Call) -> None:
    """Add a model call or a tool execution."""
    if not session.first_ns or call.start_ns < session.first_ns:
        session.first_ns = call.start_ns
    if call.end_ns > session.last_ns:
        session.last_ns = call.end_ns
    if call.kind == "tool":
        session.tools += 1
        return
    session.calls += 1
    session.tokens += call.tokens.input + call.tokens.output
    session.cost_nano_usd += call.cost_nano_usd


def count_tools(session: SessionState, call: Call, capped: Collection[str]) -> None:
    """A tool with a cap of its own is always counted under its name; of others, the first `MAX_TOOLS`."""
    counts = session.tool_spans if call.kind == "tool" else session.tool_actions
    for tool in call.called:
        name = tool if tool in counts or tool in capped or len(counts) < MAX_TOOLS else OTHER
        counts[name] = counts.get(name, 0) + 1


def correct(session: SessionState, call: Call, known: Counted) -> Call | None:
    """Where what was counted was estimated and is measured now: what it cost more is added, and given. What it cost less is not
    taken back, since rules and budgets have gone by it."""
    if known.estimate is None or call.usage_estimated or not (call.tokens.input or call.tokens.output):
        return None
    cost, inputs, outputs = known.estimate
    known.estimate, tokens = None, call.tokens
    more = Tokens(input=max(0, tokens.input - inputs), output=max(0, tokens.output - outputs))
    call = call.model_copy(update={"tokens": more, "cost_nano_usd": max(0, call.cost_nano_usd - cost)})
    session.tokens += more.input + more.output
    session.cost_nano_usd += call.cost_nano_usd
    return call
