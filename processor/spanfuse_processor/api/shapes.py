"""What answers and bodies have in common.

Answers are written from the host's own rows and are not checked against their shapes again: these are for the OpenAPI
document, and tests hold the two together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from spanfuse_schemas.record import Record


class Answer(BaseModel):
    """The shape of an answer; it may have more fields than are named."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)


class Asked(BaseModel):
    """The shape of a body; what is not known in it is an error."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True)


class Failure(Answer):
    """What every failure is answered with."""

    error: str
    """One sentence."""


Name = Annotated[str, Field(min_length=1, max_length=4096)]
Actor = Annotated[str, Field(max_length=128)]
Reason = Annotated[str, Field(max_length=1000)]
Moment = Annotated[int, Field(ge=0, lt=2**63)]

STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Server-sent events; see docs/api.md.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}
"""How an answer is described that is a stream of events."""


def told(found: Record | None) -> dict[str, Any] | None:
    """A record as part of an answer; what holds its default is left out."""
    return None if found is None else found.model_dump(mode="json", exclude_defaults=True)


def whole(found: BaseModel | Mapping[str, Any]) -> Response:
    """The answer that is this, with all its fields."""
    data = found.model_dump_json().encode() if isinstance(found, BaseModel) else dumped(found)
    return written(data)


def listed(name: str, rows: Iterable[bytes], **more: Any) -> Response:
    """The answer that has these rows, JSON each, under a name."""
    rest = b"".join(b",%s:%s" % (dumped(key), dumped(value)) for key, value in more.items())
    return written(b"{%s:[" % dumped(name) + b",".join(rows) + b"]" + rest + b"}")


def written(data: bytes) -> Response:
    """The answer that is this JSON."""
    return Response(data, media_type="application/json")


def dumped(value: Any) -> bytes:
    """A value as JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")
