"""From a call that was made here to the record that the core takes: what ingest would have made of its span."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any, Final

from spanfuse.failures import whose_failure
from spanfuse.reading.prints import call_prints, fields_of, tool_prints
from spanfuse.steering import progress
from spanfuse_schemas import Call, Tokens
from spanfuse_schemas.fingerprint import exact_hash

if TYPE_CHECKING:
    from spanfuse.calls.model_call import ModelCall
    from spanfuse.calls.tool_call import ToolCall

_TRACE: Final = "0" * 32
"""Trace of calls that are in none."""
_CODES: Final = ("status_code", "code", "status", "http_status")
"""Where exceptions of providers' clients have the status."""
_MAX_TEXT: Final = 4_096
"""Of the message of a failure only so much is looked at, characters; as at ingest."""

_numbers = itertools.count(int.from_bytes(os.urandom(8)) >> 1)


def of_model_call(made: ModelCall, *, drift: bool) -> Call:
    """A model call that is over.

    Args:
        drift: whether a rule looks at what its messages say of drift.
    """
    asked, answer, error = made.asked, made.answer, made.error
    reply = answer.reply if answer is not None and error is None else None
    prints = call_prints(made.messages, reply, asked.system, drift=drift)
    kind = type(error).__name__ if error is not None else ""
    return Call.made(
        kind="llm",
        **_identity(made),
        operation=asked.operation,
        provider=asked.provider,
        model=(answer.model if answer is not None else "") or asked.model,
        tokens=_tokens(made),
        usage_estimated=made.meter.tokens is None,
        cost_nano_usd=made.cost_nano_usd,
        cost_source="computed",
        finish_reason=answer.finish_reason if answer is not None else "",
        error_type=kind,
        error_class=_whose(error, kind) if error is not None else "",
        response=exact_hash(answer.response_id) if answer is not None and answer.response_id else "",
        content="structure" if made.messages is None and reply is None else "content",
        **fields_of(prints),
    )


def of_tool_call(made: ToolCall) -> Call:
    """A tool execution that is over."""
    error = made.error
    brought = made.brought
    if brought is None and error is not None:
        brought = f"{type(error).__name__}: {error}"[:_MAX_TEXT]
    prints = tool_prints(made.name, made.arguments, brought, made.call_id)
    failed = type(error).__name__ if error is not None else "error" if prints.failed else ""
    return Call.made(
        kind="tool",
        **_identity(made),
        operation="execute_tool",
        error_type=failed,
        error_class="tool" if failed else "",
        content="content",
        **fields_of(prints),
    )


def _identity(made: ModelCall | ToolCall) -> dict[str, Any]:
    who = made.who
    return {
        "trace_id": who.trace or _TRACE,
        "span_id": f"{next(_numbers) & 0xFFFF_FFFF_FFFF_FFFF:016x}",
        "start_ns": made.began_ns,
        "end_ns": max(made.ended_ns, made.began_ns),
        "session": who.session or "",
        "agent": who.agent or "",
        "user": who.user or "",
        "team": who.team or "",
        "progress": progress.of(who.session),
    }


def _tokens(made: ModelCall) -> Tokens:
    told = made.meter.tokens
    if told is not None:
        return Tokens.made(**told._asdict())
    return Tokens.made(input=made.due.tokens) if made.due is not None and made.due.tokens else Tokens()


def _whose(error: BaseException, kind: str) -> str:
    return whose_failure(kind, [getattr(error, name, None) for name in _CODES], str(error)[:_MAX_TEXT])
