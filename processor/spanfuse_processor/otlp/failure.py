"""Whether a span failed, with which error, and whose failure it was."""

from __future__ import annotations

import re
from typing import Any, Final

from spanfuse_processor.otlp.span import STATUS_ERROR, Span
from spanfuse_processor.otlp.values import bounded
from spanfuse_schemas.call import ErrorClass

_CODE_KEYS: Final = ("http.response.status_code", "http.status_code", "error.code", "status_code")
_MESSAGE_KEYS: Final = ("error.message", "error", "langfuse.observation.status_message")
_FAILED: Final = (
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
_CODE_TEXT: Final = re.compile(
    r"\b(?:error code|status(?:[ _]code)?|HTTP(?:/[\d.]+)?)\W{1,3}([45]\d\d)\b", re.IGNORECASE
)
_ALWAYS: Final = (
    r"rate.?limit|too.?many.?requests|time.?d?.?out|deadline.?exceeded|overloaded|unavailable|internal.?server|server.?error"
    r"|bad.?gateway|throttl|resource.?exhausted|quota"
)
_PROVIDER_TYPE: Final = re.compile(
    rf"{_ALWAYS}|connect|broken.?pipe|protocol.?error|(?:read|write)error\b", re.IGNORECASE
)
"""Types of errors that only the provider or the way to it can cause."""
_PROVIDER_TEXT: Final = re.compile(
    rf"{_ALWAYS}|connection.?(?:error|refused|reset|aborted|closed|lost)|disconnected|cannot.?connect", re.IGNORECASE
)
"""The same in a message, which speaks of other things, too."""
_CLIENT_TYPE: Final = re.compile(
    r"bad.?request|invalid|context.?length|context.?window|authentication|unauthor|permission|forbidden|not.?found"
    r"|unprocessable|validation|content.?(?:policy|filter)|cancel|keyboard.?interrupt|generator.?exit|too.?large|pars(?:er|ing)"
    r"|\bblocked\b|spanfuse|(?:Value|Type|Key|Attribute|Index|Lookup|Name|Import|Assertion|ZeroDivision|Recursion|Memory)Error",
    re.IGNORECASE,
)
"""Types that the request, the agent's own code, or spanfuse itself has caused, whatever the message speaks of."""


def error_type(span: Span) -> str:
    """`error.type`, else the type of the exception that was recorded, else `error`; empty for a success."""
    stated = bounded(span.attributes.get("error.type"))
    stated = _CLASS.sub(r"\1", stated) if stated else ""
    if span.status_code != STATUS_ERROR and not stated and not _says_so(span):
        return ""
    return stated or _raised(span) or "error"


def _says_so(span: Span) -> bool:
    """Whether a span failed whose status says nothing of it."""
    if any(span.attributes.get(key) == value for key, value in _FAILED):
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
    """Whose failure a model call is: the provider's only where something says so, since its failures are what the rule
    `errors` counts. Anything else is the client's: a request that was refused, and whatever the agent's own code raised.

    A status code decides, then the error's type, then its message.
    """
    code = _status_code(span, error)
    if code:
        return "provider" if code >= 500 or code in (408, 429) else "client"
    if _PROVIDER_TYPE.search(error):
        return "provider"
    if not _CLIENT_TYPE.search(error) and _PROVIDER_TEXT.search(error_message(span)):
        return "provider"
    return "client"


def _status_code(span: Span, error: str) -> int:
    for value in (error, *(span.attributes.get(key) for key in _CODE_KEYS)):
        text = str(value) if isinstance(value, (int, str)) else ""
        if len(text) == 3 and text.isdecimal() and text[0] in "45":
            return int(text)
    found = _CODE_TEXT.search(error_message(span))
    return int(found[1]) if found else 0
