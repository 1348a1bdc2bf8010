"""Whether a span failed, with which error, and whose failure it was."""

from __future__ import annotations

import re
from typing import Any, Final

from spanfuse.failures import whose_failure
from spanfuse_processor.otlp.span import STATUS_ERROR, Span
from spanfuse_processor.otlp.values import bounded
from spanfuse_schemas.call import ErrorClass

CODE_KEYS: Final = ("http.response.status_code", "http.status_code", "error.code", "status_code")
_MESSAGE_KEYS: Final = ("error.message", "error", "langfuse.observation.status_message")
FAILED: Final = (
    ("gen_ai.tool.status", "error"),
    ("tool.status", "error"),
    ("success", False),
    ("success", "false"),
    ("langfuse.observation.level", "ERROR"),
)
"""Attributes and values by which spans fail whose status says nothing of it."""
_RECORDS_FAILURES: Final = frozenset({"langsmith"})
"""Scopes that record an exception only for what failed, even where they call it a success."""
_WRITTEN: Final = re.compile(r"(\w{1,100}(?:Error|Exception|Timeout|Interrupt|Exit))\(")
"""An exception as Python writes it."""
_CLASS: Final = re.compile(r"<class '([\w.]+)'>")
"""A type as Python writes it."""


def error_type(span: Span) -> str:
    """`error.type`, else the type of the exception that was recorded, else `error`; empty for a success."""
    stated = bounded(span.attributes.get("error.type"))
    stated = _CLASS.sub(r"\1", stated) if stated else ""
    if span.status_code != STATUS_ERROR and not stated and not _says_so(span):
        return ""
    return stated or _raised(span) or "error"


def _says_so(span: Span) -> bool:
    """Whether a span failed whose status says nothing of it."""
    if any(span.attributes.get(key) == value for key, value in FAILED):
        return True
    return span.scope in _RECORDS_FAILURES and bool(exception(span))


def _raised(span: Span) -> str:
    """Type of the exception that was recorded, or of the one that a plain `Exception` tells of."""
    found = exception(span)
    kind, message = bounded(found.get("exception.type")), found.get("exception.message")
    told = _WRITTEN.match(message) if kind == "Exception" and isinstance(message, str) else None
    return bounded(told[1]) if told else kind


def exception(span: Span) -> dict[str, Any]:
    """Attributes of the last exception that was recorded on a span."""
    return next((e.attributes for e in reversed(span.events) if e.name == "exception"), {})


def error_message(span: Span) -> str:
    """What the failure said, for telling one from another; never stored."""
    stated = (span.attributes.get(key) for key in _MESSAGE_KEYS)
    for value in (span.status_message, exception(span).get("exception.message"), *stated):
        if isinstance(value, str) and value:
            return value[:4096]
    return ""


def error_class(span: Span, error: str) -> ErrorClass:
    """Whose failure a model call is."""
    codes = [span.attributes.get(key) for key in CODE_KEYS]
    return whose_failure(error, codes, error_message(span))
