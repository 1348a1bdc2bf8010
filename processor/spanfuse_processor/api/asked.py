"""What a route is given: the host, and who asks."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Depends, Path, Request
from fastapi.security import APIKeyCookie, HTTPBearer

import spanfuse_processor.api.paths  # noqa: F401  The routes name ids by it.
from spanfuse_processor.api.access import COOKIE, Access, Principal, permit
from spanfuse_processor.api.console import Console
from spanfuse_processor.api.door import WHO
from spanfuse_processor.config.api import Role

_BEARER: Final = HTTPBearer(
    auto_error=False, description="A token of `extensions.api.tokens`; none is needed where none is set."
)
_COOKIE: Final = APIKeyCookie(name=COOKIE, auto_error=False, description="Set by `POST /login`.")


class Needs:
    """Lets pass who has a role.

    Args:
        role: the least that suffices.
    """

    def __init__(self, role: Role) -> None:
        self._role = role

    async def __call__(
        self, request: Request, _: Annotated[Any, Depends(_BEARER)], __: Annotated[Any, Depends(_COOKIE)]
    ) -> Principal:
        access: Access = request.app.state.access
        principal: Principal = request.scope.get(WHO) or access.principal(request.headers)
        permit(principal, self._role)
        return principal


async def _console(request: Request) -> Console:
    console: Console = request.app.state.console
    return console


Host = Annotated[Console, Depends(_console)]
"""The host."""
READER: Final = Depends(Needs("read"))
Reader = Annotated[Principal, READER]
"""Who may look."""
Operator = Annotated[Principal, Depends(Needs("operate"))]
"""Who may release and extend."""
Admin = Annotated[Principal, Depends(Needs("admin"))]
"""Who may change the policy."""

SessionId = Annotated[str, Path(max_length=4096, description="Its id; a `/` in it may be written `%2F`.")]
Key = Annotated[str, Path(max_length=4096, description="Key of a breaker, such as `session:checkout-42`.")]
