"""What every request passes first: is it meant for this machine, from here, of a kind and size that is taken."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spanfuse_processor.api.access import SAFE, Access, from_here, local_name
from spanfuse_processor.api.failures import refused

MAX_BODY_BYTES: Final = 64 * 1024
"""Largest body, bytes; a policy of a hundred exceptions has some 20 KB."""
BODY_TIMEOUT_S: Final = 30.0
"""How long a body may take to arrive, seconds."""
MAX_QUERY_BYTES: Final = 16 * 1024
"""Longest query, bytes: all fields of the longest one, escaped."""
HEAD: Final = "spanfuse.head"
"""In the scope of a request that wants no body."""
WHO: Final = "spanfuse.principal"
"""In the scope of a request to what is not for everybody: who asks."""
CLOSED: Final = ("/v1/", "/metrics")
"""Beginnings of the paths that are not for everybody."""


class Door:
    """The application behind the checks.

    Args:
        app: takes what passes. A HEAD is a GET to it.
        access: who may do what.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        told = _with_headers(send)
        headers = Headers(scope=scope)
        try:
            self._check(scope, headers)
            if scope["path"].startswith(CLOSED):
                scope = {**scope, WHO: self._access.principal(headers)}
        except HTTPException as error:
            await refused(error)(scope, receive, told)
            return
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET", HEAD: True}
        await self.app(scope, _bounded(receive), told)

    def _check(self, scope: Scope, headers: Headers) -> None:
        if self._access.open and not local_name(headers.get("host", "")):
            raise HTTPException(
                403, "without extensions.api.tokens this answers to localhost and addresses, not to names"
            )
        if len(scope["query_string"]) > MAX_QUERY_BYTES:
            raise HTTPException(414, f"a query of more than {MAX_QUERY_BYTES} bytes")
        if scope["method"] in SAFE:
            return
        # A page elsewhere can make a browser send a form or plain text, but not JSON.
        json = headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
        from_here(scope["method"], headers, told=not json or ("cookie" in headers and "authorization" not in headers))
        if not json and scope["path"].startswith("/v1/"):
            raise HTTPException(415, "the content type must be application/json")


def _bounded(receive: Receive) -> Receive:
    taken, whole = 0, False
    until = asyncio.get_running_loop().time() + BODY_TIMEOUT_S

    async def bounded() -> Message:
        nonlocal taken, whole
        try:
            # Behind the body one only waits for the client to leave.
            async with asyncio.timeout_at(None if whole else until):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, f"took more than {BODY_TIMEOUT_S:g} s to arrive") from None
        whole = whole or not message.get("more_body", False)
        taken += len(message.get("body", b""))
        if taken > MAX_BODY_BYTES:
            raise HTTPException(413, f"larger than {MAX_BODY_BYTES} bytes")
        return message

    return bounded


def _with_headers(send: Send) -> Send:
    async def told(message: Message) -> Any:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["x-content-type-options"] = "nosniff"
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return told
