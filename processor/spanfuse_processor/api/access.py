"""Who may do what: by a bearer token, or the cookie that a login with it has set."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser

from spanfuse_processor.config.api import Api, ApiToken, Role
from spanfuse_processor.serving import presented

COOKIE: Final = "spanfuse_login"
LOGIN_S: Final = 12 * 3600
"""How long a login lasts, seconds: a shift."""
RANK: Final[Mapping[Role, int]] = {"read": 0, "operate": 1, "admin": 2}
SAFE: Final = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Principal:
    """Who asks."""

    name: str = ""
    """Name of the token; empty where none is needed."""
    role: Role = "admin"
    """What it may do."""
    expires_s: float | None = None
    """Until when, seconds since the Unix epoch; none: not limited."""

    def actor(self, said: str) -> str:
        """Who has given an order, for the audit: the token, and whoever it says it is."""
        if not self.name:
            return said
        return f"{said} ({self.name})" if said and said != self.name else self.name


@dataclass(frozen=True)
class _Known:
    """A token as it is compared: by its hash, so that not even its length shows in the time."""

    name: str
    role: Role
    expires_s: float | None
    digest: bytes = field(repr=False)
    key: bytes = field(repr=False)
    """Signs logins; it ends with the token."""

    @classmethod
    def of(cls, token: ApiToken) -> _Known:
        secret = token.token.get_secret_value().encode()
        expires_s = token.expires.timestamp() if token.expires is not None else None
        key = hmac.digest(secret, b"spanfuse login", "sha256")
        return cls(token.name, token.role, expires_s, hashlib.sha256(secret).digest(), key)


class Access:
    """Who may do what.

    Args:
        settings: section `extensions.api`. Without tokens everybody may do everything.
        now: wall clock, seconds since the Unix epoch; for tests.
    """

    def __init__(self, settings: Api | None = None, now: Callable[[], float] = time.time) -> None:
        self._known = tuple(_Known.of(token) for token in (settings.tokens if settings else ()))
        self.now: Final = now

    @property
    def open(self) -> bool:
        """Whether no token is needed."""
        return not self._known

    def principal(self, headers: Mapping[str, str]) -> Principal:
        """Who presents a header `Authorization`, or without one the cookie of a login.

        Raises:
            HTTPException: 401: nobody who is known.
        """
        if self.open:
            return Principal()
        authorization = headers.get("authorization")
        if authorization is not None:
            return self._alive(self._of_token(presented(authorization)))
        cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE)
        if cookie:
            return self._of_cookie(cookie)
        raise _unknown("a token is needed: send Authorization: Bearer TOKEN")

    def login(self, token: str) -> tuple[Principal, str]:
        """Who presents a token, and the cookie that stands for it until `expires_s`.

        Raises:
            HTTPException: 401: nobody who is known; 409: there are no tokens.
        """
        if self.open:
            raise HTTPException(409, "extensions.api.tokens is not set: no login is needed")
        known = self._of_token(token.strip().encode("utf-8", "replace"))
        self._alive(known)
        ends_s = int(min(self.now() + LOGIN_S, known.expires_s if known.expires_s is not None else float("inf")))
        return Principal(known.name, known.role, ends_s), f"{known.name}:{ends_s}:{_mac(known, ends_s)}"

    def _of_token(self, secret: bytes) -> _Known:
        given, found = hashlib.sha256(secret).digest(), None
        for known in self._known:  # all of them, so that the time tells of none
            found = known if hmac.compare_digest(known.digest, given) else found
        if found is None:
            raise _unknown("the token is not known", "invalid_token")
        return found

    def _of_cookie(self, cookie: str) -> Principal:
        name, _, rest = cookie.partition(":")
        ends, _, mac = rest.partition(":")
        known = next((known for known in self._known if known.name == name), None)
        timely = ends.isascii() and ends.isdecimal() and len(ends) < 16 and int(ends) > self.now()
        if known is None or not timely or not hmac.compare_digest(mac.encode(), _mac(known, int(ends)).encode()):
            raise _unknown("the login is over: log in again", "invalid_token")
        self._alive(known)
        return Principal(known.name, known.role, int(ends))

    def _alive(self, known: _Known) -> Principal:
        if known.expires_s is not None and known.expires_s <= self.now():
            raise _unknown("the token has expired", "invalid_token")
        return Principal(known.name, known.role, known.expires_s)


def permit(principal: Principal, role: Role) -> None:
    """Let pass who has this role, or more.

    Raises:
        HTTPException: 403.
    """
    if RANK[principal.role] < RANK[role]:
        challenge = f'Bearer realm="spanfuse", error="insufficient_scope", scope="{role}"'
        why = f"this needs the role {role}; {principal.name} has {principal.role}"
        raise HTTPException(403, why, {"WWW-Authenticate": challenge})


def from_here(method: str, headers: Mapping[str, str], *, told: bool) -> None:
    """Let pass what no page of another site has made the browser of an operator send.

    Args:
        told: whether the browser has to have said from which page it comes, as every browser does of what it sends by itself: a
            form, a cookie.

    Raises:
        HTTPException: 403.
    """
    if method in SAFE:
        return
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        mine = site in ("same-origin", "none")
    elif origin is not None:
        mine = origin.partition("://")[2].lower() == headers.get("host", "").lower()
    else:
        mine = not told
    if not mine:
        raise HTTPException(403, "a page of another site may not do this")


def local_name(host: str) -> bool:
    """Whether a header `Host` names this machine: an address, or `localhost`. Any other name may be that of a page elsewhere,
    which has it resolved to this machine to get past the browser's rules (DNS rebinding)."""
    name = host[1 : host.rfind("]")] if host.startswith("[") else host.partition(":")[0].lower()
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name in ("", "localhost") or name.endswith(".localhost")
    return True


def _mac(known: _Known, ends_s: int) -> str:
    return hmac.new(known.key, f"{known.name}:{ends_s}".encode(), "sha256").hexdigest()


def _unknown(why: str, error: str = "") -> HTTPException:
    challenge = 'Bearer realm="spanfuse"' + (f', error="{error}"' if error else "")
    return HTTPException(401, why, {"WWW-Authenticate": challenge})
