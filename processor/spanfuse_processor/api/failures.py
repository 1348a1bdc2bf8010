"""What is answered when something is not done: `{"error": "one sentence"}`, and no more than the sentence."""

from __future__ import annotations

import logging
from typing import Any, Final

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from spanfuse_processor.api.shapes import Failure
from spanfuse_processor.errors import QueryError, SpanfuseError, UnavailableError

log = logging.getLogger(__name__)

DOCUMENTED: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {
        "model": Failure,
        "description": "400: not understood; 401: no token that is known; 403: its role does not suffice; 404: not known; "
        "409: not possible here; 413, 414: too large; 415: not JSON",
    },
    503: {"model": Failure, "description": "A store or broker is away, or too many clients are connected: try again."},
}
"""Of every route."""


def refused(error: HTTPException) -> Response:
    """The answer to what is not done."""
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return refused(error)


async def _misunderstood(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return JSONResponse({"error": f"Invalid JSON: {first['ctx']['error']}"}, 400)
    where = ".".join(map(str, first["loc"][1:]))
    message = first["msg"].removeprefix("Value error, ")
    return JSONResponse({"error": f"{where}: {message}" if where else message}, 400)


async def _senseless(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)


async def _impossible(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 409)


async def _unavailable(_: Request, error: Exception) -> Response:
    # Closed, for a connection kept is a file descriptor, which may be what there is too little of.
    return JSONResponse({"error": str(error)}, 503, {"Retry-After": "1", "Connection": "close"})


async def _failed(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return JSONResponse({"error": f"unexpected: {type(error).__name__}"}, 500)


HANDLERS: Final[dict[int | type[Exception], Any]] = {
    HTTPException: _refused,
    RequestValidationError: _misunderstood,
    QueryError: _senseless,
    UnavailableError: _unavailable,
    SpanfuseError: _impossible,
    Exception: _failed,
}
"""Kind of error → its answer."""
