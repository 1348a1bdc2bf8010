"""A span as the call that it would be alone, and of two that tell of one call, which one stays and what it takes over."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from spanfuse_schemas import Call, Tokens

_NOTHING: Final = Tokens()
_LACKING: Final = ("user", "team", "agent", "provider", "model", "finish_reason", "ttft_ns", "response")


class Candidate(NamedTuple):
    """A call, and what tells that another span is the same call."""

    call: Call
    scope: str
    """Name of the instrumentation."""
    response_id: str


def shows(call: Call) -> tuple[bool, bool]:
    """Whether there is content, and whether what the model did is among it."""
    return call.content != "structure", call.action is not None


def standing(call: Call) -> tuple[tuple[bool, bool], bool, int]:
    """Of two spans the one that shows more stays, then the one within a trace of what the agent does, then the earlier."""
    return shows(call), bool(call.parent_span_id), -call.start_ns


def placing(call: Call) -> tuple[bool, bool, bool, int]:
    """How well a span knows to which session its call belongs: it names it, or is within a trace of what the agent does."""
    return call.session_source != "trace", bool(call.parent_span_id), call.content != "structure", -call.start_ns


def merged(keep: Candidate, other: Candidate) -> Candidate:
    """One of two spans of a call, with what it lacks from the other."""
    call, more = keep.call, other.call
    update: dict[str, Any] = {f: getattr(more, f) for f in _LACKING if not getattr(call, f) and getattr(more, f)}
    update |= _usage(call, more)
    if call.session_source == "trace" and more.session != call.session and placing(more) > placing(call):
        source = "inherited" if more.session_source == "trace" else more.session_source
        update |= {"session": more.session, "session_source": source}
    if call.error_type and not more.error_type:  # the call went well, and then something around it did not
        update |= {"error_type": "", "error_class": ""}
    merged = call.model_copy(update=update) if update else call
    return Candidate(merged, keep.scope, keep.response_id or other.response_id)


def _usage(call: Call, more: Call) -> dict[str, Any]:
    """Tokens that were measured go before an estimate, more classes of them before fewer, and a reported cost before any."""
    update: dict[str, Any] = {}
    if _measured(more) > _measured(call):
        update = {"tokens": more.tokens, "usage_estimated": more.usage_estimated}
        update |= {"cost_nano_usd": more.cost_nano_usd, "cost_source": more.cost_source}
    if "reported" in (call.cost_source, more.cost_source):
        reported = call if call.cost_source == "reported" else more
        update |= {"cost_nano_usd": reported.cost_nano_usd, "cost_source": "reported"}
    return update


def _measured(call: Call) -> int:
    """How well the tokens of a call are known."""
    if call.usage_estimated or call.tokens == _NOTHING:
        return 0
    tokens = call.tokens
    return 1 + bool(tokens.cache_read) + bool(tokens.cache_write) + bool(tokens.reasoning)
