"""What a client gets in place of an answer: JSON that the clients of OpenAI and Anthropic both take for an error."""

from __future__ import annotations

from typing import Any, Final

import orjson

from spanfuse import Blocked
from spanfuse.headers import retry_after_s

_JSON: Final = (b"content-type", b"application/json")
_FINAL: Final = (b"x-should-retry", b"false")
"""Both clients try a 429 again by themselves, unless they are told not to."""


class Refusal(Exception):
    """The request goes no further.

    Args:
        status: HTTP status.
        body: the whole answer.
        headers: beside its type.
    """

    def __init__(self, status: int, body: dict[str, Any], *headers: tuple[bytes, bytes]) -> None:
        super().__init__(body)
        self.status = status
        self.body = orjson.dumps(body)
        self.headers = [_JSON, (b"content-length", str(len(self.body)).encode()), *headers]


def refused(status: int, code: str, message: str, *, param: str | None = None, final: bool = True) -> Refusal:
    """A refusal in plain words.

    Args:
        status: HTTP status.
        code: what is the matter, for programs.
        message: what is the matter, for people.
        param: the header that is wrong.
        final: whether trying again is in vain.
    """
    kind = "invalid_request_error" if status < 500 else "api_error"
    return Refusal(status, _error(kind, f"spanfuse_{code}", message, param), *([_FINAL] if final else []))


def blocked(refusal: Blocked, session: str | None, agent: str | None) -> Refusal:
    """The refusal of a Guard, 429: the fields of `Blocked.body`, where `error` is an object, as both clients expect it."""
    body = refusal.body(session=session, agent=agent)
    error = _error(body["error"], body["error"], body["message"], None)
    return Refusal(429, body | error, (b"retry-after", str(retry_after_s(refusal)).encode()), _FINAL)


def _error(kind: str, code: str, message: str, param: str | None) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "code": code, "message": message, "param": param}}
