"""How a browser logs in: with a token, once; from then on it sends a cookie that scripts cannot read."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from pydantic import Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response

from spanfuse_processor.api.access import COOKIE, Access
from spanfuse_processor.api.shapes import Answer, Asked

router: Final = APIRouter(tags=["login"])

HOME: Final = "/"
REFUSED: Final = "/?login=refused"
"""Where a form leads whose token is not known."""


class Login(Asked):
    """A token to log in with."""

    token: Annotated[str, Field(min_length=1, max_length=4096)]
    """The token."""


class LoggedIn(Answer):
    """Who is logged in."""

    name: str
    """Name of the token."""
    role: Literal["read", "operate", "admin"]
    """What it may do."""
    expires_s: float | None
    """Until when, seconds since the Unix epoch."""


_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            kind: {"schema": Login.model_json_schema()}
            for kind in ("application/json", "application/x-www-form-urlencoded")
        },
    }
}


@router.post("/login", response_model=LoggedIn, openapi_extra=_BODY)
async def login(request: Request) -> Response:
    """Log a browser in with a token, as JSON or as a form; a form is led on to the page."""
    form = not request.headers.get("content-type", "").startswith("application/json")
    access: Access = request.app.state.access
    try:
        principal, cookie = access.login(_token(await request.body(), form))
    except HTTPException:
        if form:
            return RedirectResponse(REFUSED, 303)
        raise
    answer = {"name": principal.name, "role": principal.role, "expires_s": principal.expires_s}
    response = RedirectResponse(HOME, 303) if form else JSONResponse(answer)
    lasts_s = int((principal.expires_s or 0) - access.now())
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, cookie, max_age=lasts_s, secure=secure, httponly=True, samesite="strict")
    return response


@router.post("/logout", status_code=204)
async def logout() -> Response:
    """Forget the login of this browser."""
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


def _token(body: bytes, form: bool) -> str:
    try:
        if not form:
            return Login.model_validate_json(body).token
        fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=8)
        return Login(token=fields.get("token", [""])[0]).token
    except (ValidationError, ValueError):
        raise HTTPException(400, "token: the token to log in with") from None
