"""What all pages have in common: the frame around them, who looks at them, and how it is told that something failed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from spanfuse_processor.api.access import RANK, Access, Principal
from spanfuse_processor.api.console import Console
from spanfuse_processor.errors import QueryError, SpanfuseError, UnavailableError
from spanfuse_processor.page import drawing, formats
from spanfuse_processor.page.files import fingerprint
from spanfuse_schemas.names import normal_key

log = logging.getLogger(__name__)

POLICY: Final = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
"""Content-Security-Policy: nothing runs or is shown that is not of this host, and nothing that stands in the HTML runs."""
HEADERS: Final = {"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin"}
PARTS: Final = (
    ("/", "Overview"),
    ("/ui/sessions", "Sessions"),
    ("/ui/breakers", "Breakers"),
    ("/ui/detections", "Detections"),
    ("/ui/budgets", "Budgets"),
    ("/ui/agents", "Agents"),
    ("/ui/models", "Models"),
    ("/ui/alerts", "Alerts"),
    ("/ui/explain", "Explain"),
)
"""Address → name, as they are listed at the top."""

_STATUS: Final = ((UnavailableError, 503), (QueryError, 400), (RequestValidationError, 400), (SpanfuseError, 409))


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= formats.FILTERS
    made.globals |= {"address": formats.address, "anchor": formats.anchor, "amount": formats.amount, "parts": PARTS}
    made.globals |= {"line": drawing.line, "area": drawing.area, "width": drawing.WIDTH, "height": drawing.HEIGHT}
    made.globals |= {"v": fingerprint()}
    return made


_TEMPLATES: Final = _environment()


def page(request: Request, who: Principal, name: str, **shown: Any) -> Response:
    """A page.

    Args:
        who: who looks at it.
        name: its template.
        shown: what the template shows.
    """
    console: Console = request.app.state.console
    access: Access = request.app.state.access
    query = f"?{request.url.query}" if request.url.query else ""
    around = {
        "here": request.url.path + query,
        "path": request.url.path,
        "mode": console.policy.policy.mode,
        "who": who,
        "locked": not access.open,
        "may_operate": RANK[who.role] >= RANK["operate"],
    }
    return HTMLResponse(_TEMPLATES.get_template(name).render(**around, **shown), headers=HEADERS)


def done(request: Request, said: str, then: str) -> Response:
    """An order was carried out: a script is told what to say, a plain form is led on.

    Args:
        then: address of the page to go to.
    """
    if "hx-request" in request.headers:
        return PlainTextResponse(said, headers=HEADERS)
    return RedirectResponse(then, 303, HEADERS)


async def form(request: Request) -> dict[str, str]:
    """The fields of a form that was sent; the last of each name.

    Raises:
        QueryError: it is none.
    """
    try:
        found = parse_qs((await request.body()).decode(), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise QueryError("the form cannot be read") from None
    return {name: values[-1] for name, values in found.items()}


def key_of(asked: str) -> str:
    """The key of a breaker as it was asked for.

    Raises:
        QueryError: it is none.
    """
    key = normal_key(asked.strip())
    if len(key.partition(":")[2]) == 0:
        raise QueryError("write a key as session:ID, agent:NAME, user:ID, team:NAME or global:*")
    return key


class PageRoute(APIRoute):
    """A route of the page: who is not known is asked to log in, and what fails is told in a page, to scripts as plain text."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handler(request)
            except Exception as error:
                return _failed(request, error)

        return handled


def _failed(request: Request, error: Exception) -> Response:
    status, why = _told(error)
    scripted = "hx-request" in request.headers
    if status == 401:
        if scripted:
            return PlainTextResponse("log in again", 401, HEADERS | {"HX-Refresh": "true"})
        refused = request.query_params.get("login") == "refused"
        return HTMLResponse(_TEMPLATES.get_template("login.html").render(refused=refused), 401, HEADERS)
    if scripted:
        return PlainTextResponse(why, status, HEADERS)
    return HTMLResponse(_TEMPLATES.get_template("failed.html").render(status=status, why=why), status, HEADERS)


def _told(error: Exception) -> tuple[int, str]:
    if isinstance(error, AnyHTTPException | HTTPException):
        return error.status_code, str(error.detail)
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return status, "that cannot be asked for" if isinstance(error, RequestValidationError) else str(error)
    log.error("a page failed", exc_info=error)
    return 500, f"unexpected: {type(error).__name__}"
