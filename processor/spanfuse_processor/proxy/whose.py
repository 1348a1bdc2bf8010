"""On whose behalf a request comes, and what its session may take: from headers, else the path, else the body."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from spanfuse.headers import AGENT, BUDGET, MAX_STEPS, SESSION, SESSION_IN_METADATA, TEAM, USER
from spanfuse_processor.proxy.refusals import Refusal, refused

PREFIXES: Final = ("x-spanfuse-", "x-loopers-")
"""How the headers begin that are meant for a proxy of sessions, ours and Loopers': none of them goes upstream."""

_KEY: Final = ("x-spanfuse-provider-key", "x-loopers-provider-key")
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_NO_TRACE: Final = "0" * 32
_STEPS_AT_MOST: Final = 10**9


@dataclass(frozen=True, slots=True)
class Whose:
    """Names of a request, None where not known, and the caps of its session, None where it has none."""

    session: str | None = None
    agent: str | None = None
    user: str | None = None
    team: str | None = None
    trace: str | None = None
    budget_usd: float | None = None
    max_steps: int | None = None


def read(headers: Mapping[str, str], path: Mapping[str, str], body: Mapping[str, Any]) -> Whose:
    """Whose a request is.

    Args:
        headers: of the request, in small letters.
        path: names that its path has.
        body: its JSON; empty if it has none.

    Raises:
        Refusal: 400; a header has no value that it can have.
    """
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    session = _name(headers, SESSION) or path.get("session") or _text(metadata.get(key) for key in SESSION_IN_METADATA)
    budget, steps = _budget(headers), _steps(headers)
    if session is None and (budget is not None or steps is not None):
        name = _given(headers, BUDGET if budget is not None else MAX_STEPS)[0]
        raise _bad(name, f"needs a session: send {SESSION[0]} as well")
    return Whose(
        session,
        _name(headers, AGENT) or path.get("agent"),
        _name(headers, USER) or path.get("user") or _text((body.get("user"), metadata.get("user_id"))),
        _name(headers, TEAM) or path.get("team"),
        _trace(headers),
        budget,
        steps,
    )


def provider_key(headers: Mapping[str, str]) -> str | None:
    """The key that goes upstream in place of what the client has as its own.

    Raises:
        Refusal: 400; it is empty.
    """
    return _name(headers, _KEY)


def _given(headers: Mapping[str, str], names: Iterable[str]) -> tuple[str, str | None]:
    """The first of some headers that there is: name and value."""
    for name in names:
        if (value := headers.get(name)) is not None:
            return name, value.strip()
    return "", None


def _name(headers: Mapping[str, str], names: Iterable[str]) -> str | None:
    name, value = _given(headers, names)
    if value == "":  # as of a variable that is not set: without its session the call would be nobody's
        raise _bad(name, "is empty")
    return value


def _budget(headers: Mapping[str, str]) -> float | None:
    name, value = _given(headers, BUDGET)
    if value is None:
        return None
    try:
        budget = float(value)
    except ValueError:
        budget = math.nan
    if not 0 <= budget < math.inf:
        raise _bad(name, f"is an amount in USD from 0 on, such as 5.00, not {value[:32]!r}")
    return budget


def _steps(headers: Mapping[str, str]) -> int | None:
    name, value = _given(headers, MAX_STEPS)
    if value is None:
        return None
    if not (value.isascii() and value.isdecimal()) or len(value) > 10 or int(value) > _STEPS_AT_MOST:
        raise _bad(name, f"is a whole number from 0 to {_STEPS_AT_MOST}, not {value[:32]!r}")
    return int(value)


def _trace(headers: Mapping[str, str]) -> str | None:
    """The trace, as W3C has it; what is no traceparent is none, as its specification demands."""
    found = _TRACEPARENT.fullmatch(headers.get("traceparent", "").strip())
    return found[1] if found is not None and found[1] != _NO_TRACE else None


def _text(values: Iterable[Any]) -> str | None:
    return next((value for value in values if isinstance(value, str) and value.strip()), None)


def _bad(name: str, why: str) -> Refusal:
    return refused(400, "invalid_header", f"The header {name} {why}.", param=name)
