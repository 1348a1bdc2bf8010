"""Whose failure a model call is: told alike by the Guard, of an exception, and at ingest, of what a span says of one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal

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


def whose_failure(error: str, codes: Iterable[object], message: str) -> Literal["provider", "client"]:
    """The provider's only where something says so, since its failures are what the rule `errors` counts. Anything else is the
    client's: a request that was refused, and whatever the agent's own code raised.

    A status code decides, then the error's type, then its message.

    Args:
        error: type of the error, or its status code.
        codes: where else a status code may stand.
        message: what the error says.
    """
    code = _status_code((error, *codes), message)
    if code:
        return "provider" if code >= 500 or code in (408, 429) else "client"
    if _PROVIDER_TYPE.search(error):
        return "provider"
    if not _CLIENT_TYPE.search(error) and _PROVIDER_TEXT.search(message):
        return "provider"
    return "client"


def _status_code(places: Iterable[object], message: str) -> int:
    for value in places:
        text = str(value) if isinstance(value, (int, str)) else ""
        if len(text) == 3 and text.isdecimal() and text[0] in "45":
            return int(text)
    found = _CODE_TEXT.search(message)
    return int(found[1]) if found else 0
